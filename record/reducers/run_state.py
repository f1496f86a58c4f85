"""The state of a study: what every kind has, with a slice for the work that only some kinds do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from labwright.record.baseline_check import MissingAblation
from labwright.record.events.paper_events import (
    ClaimsRead,
    ContextRead,
    DraftAssessed,
    FiguresDrawn,
    FiguresReviewed,
    IdeaProposed,
    IdeationStarted,
    LibraryChecked,
    LiteratureSearched,
    PaperJudged,
    PaperReleased,
    PriorWorkRead,
    RequestsRead,
    ReviewersAnswered,
    RewriteStarted,
    WorksChosen,
    WorksFound,
)
from labwright.record.events.repository_events import (
    AblationsConcluded,
    BaselineChecked,
    CommandFound,
    EnvironmentBuilt,
    MutationTried,
    PartsFound,
    QuestionAnswered,
    QuestionDesigned,
    RepairMade,
    RepositoryImported,
)
from labwright.record.events.run_events import (
    CallAnswered,
    CallUnanswered,
    CampaignMembership,
    CommandReceived,
    CostReserved,
    GateReached,
    ProcessEnded,
    PromptChanged,
    ProviderOutage,
    RunBranched,
    RunStarted,
    StudiesRecalled,
    StudyKept,
    ToolUsed,
)
from labwright.record.events.search_events import (
    AblationsPlanned,
    AddendumRegistered,
    CellsRequired,
    CodeRead,
    ConfirmationLocked,
    DecisionMade,
    HoursSetAside,
    LookTaken,
    MissingAblationsNamed,
    NodeProbed,
    NodesCompared,
    PlanAmended,
    ProtocolReviewed,
    StageWinnerChosen,
)
from labwright.record.machine import ComputeRate, Machine
from labwright.record.schema.claims import SentenceReading, SetupReading
from labwright.record.schema.data_plan import (
    DataPlan,
    DatasetFacts,
    FrozenScorer,
    HubItem,
    HyperparameterSetting,
    Measurement,
    ResampledInterval,
    Trial,
)
from labwright.record.schema.decisions import (
    MISSING_ABLATIONS_TASK,
    CallKey,
    Cost,
    EndStage,
    RunTask,
    StudiedLLMUsage,
    WidenDimension,
)
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.nodes import (
    PHASES,
    STAGES,
    Cell,
    CellRun,
    Failure,
    GateName,
    InstalledPackages,
    Node,
    NodeKind,
    Phase,
    StageName,
    StageSummary,
    StudyKind,
    TrialResult,
)
from labwright.record.schema.paper import PaperDraft, ReviewFile
from labwright.record.schema.repository import RepositoryCommand

# The model calls of a study, and what its calls and experiments cost.


@dataclass
class RoleUsage:
    """Usage by the calls of one role."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cached_usd: float = 0.0
    """Part of `usd` for cached tokens."""
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def sum_usage(found: Iterable[RoleUsage]) -> RoleUsage:
    """Return the sum of several usages."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass
class CallState:
    """Answered and open model calls, and costs by decision."""

    answers: dict[CallKey, CallAnswered] = field(default_factory=dict[CallKey, CallAnswered])
    superseded_answers: list[CallAnswered] = field(default_factory=list[CallAnswered])
    """Answers to questions that later changed; their replacements are in `answers`."""
    changed_prompts: dict[CallKey, PromptChanged] = field(default_factory=dict[CallKey, PromptChanged])
    tool_uses: dict[CallKey, ToolUsed] = field(default_factory=dict[CallKey, ToolUsed])
    """Results of the tools that authors called, by the answer that called them."""
    unanswered_calls: dict[CallKey, CallUnanswered] = field(default_factory=dict[CallKey, CallUnanswered])
    usage_by_role: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    llm_usage: tuple[StudiedLLMUsage, ...] = ()
    """Usage of studied language models by experiments, up to the last task outside the search."""
    reservations: dict[str, CostReserved] = field(default_factory=dict[str, CostReserved])
    """Reservations for calls and attempts in progress, by `CostReserved.name`."""
    reserved_at: dict[str, float] = field(default_factory=dict[str, float])
    """When each name was last reserved, in seconds since 1970."""
    settled_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Cost of the answers and attempts of each decision."""
    lost_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Reservations of calls and attempts of a decision that were killed, or that failed with an unknown cost."""

    def add_answer(self, event: CallAnswered) -> None:
        """Fold a model's answer, which replaces an earlier one with its key, into the state."""
        if (before := self.answers.pop(event.key, None)) is not None:
            self.superseded_answers.append(before)
            self.changed_prompts.pop(event.key, None)
        self.answers[event.key] = event
        role = self.usage_by_role.setdefault(event.key.role, RoleUsage())
        role.calls += 1
        for name, amount in event.usage:  # RoleUsage has the same fields
            setattr(role, name, getattr(role, name) + (amount or 0))
        role.unpriced += event.usage.usd is None
        role.seconds += event.seconds
        cost = Cost(usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens)
        self.settle(str(event.key), event.key.decision, cost)

    def settle(self, name: str, decision_id: int, cost: Cost) -> None:
        """Book the cost of a call or attempt of decision k and drop its reservation."""
        self.reservations.pop(name, None)
        self.settled_costs[decision_id] = self.settled_costs.get(decision_id, Cost()) + cost

    def book_lost(self, *names: str, ended: float | None = None, gpus: float = 0.0) -> None:
        """Book the open reservations among these as spent: the work did not complete.

        If the process ended at `ended` (seconds since 1970) at the latest, an experiment cannot have used more than
        `gpus` GPUs from its reservation to then.
        """
        for name in names:
            if (one := self.reservations.pop(name, None)) is not None:
                spent = one.spending
                if ended is not None:
                    used = max(0.0, ended - self.reserved_at[name]) * gpus
                    spent = spent.model_copy(update={"gpu_seconds": min(spent.gpu_seconds, used)})
                self.lost_costs[one.k] = self.lost_costs.get(one.k, Cost()) + spent

    @property
    def total_usage(self) -> RoleUsage:
        """Usage over all roles."""
        return sum_usage(self.usage_by_role.values())

    def sum_usage_without(self, *roles: str) -> RoleUsage:
        """Return the usage over all roles except these."""
        return sum_usage(one for role, one in self.usage_by_role.items() if role not in roles)

    @property
    def spent_cost(self) -> Cost:
        """Cost of completed work plus reservations for calls and attempts in progress."""
        open_costs = (one.spending for one in self.reservations.values())
        return sum((*self.settled_costs.values(), *self.lost_costs.values(), *open_costs), start=Cost())

    @property
    def mean_writing_seconds(self) -> float:
        """Mean time to write the code of a node; 0.0 before the first."""
        code = self.usage_by_role.get("code")
        return code.seconds / code.calls if code is not None else 0.0


# An ideation: its topic, its searches and the ideas proposed.


@dataclass
class IdeationState:
    """The ideation that the log is about; empty in a run."""

    started: IdeationStarted | None = None
    literature_searches: dict[tuple[int, int], LiteratureSearched] = field(
        default_factory=dict[tuple[int, int], LiteratureSearched]
    )
    proposed_ideas: dict[int, IdeaProposed] = field(default_factory=dict[int, IdeaProposed])


# The user's repository that a study is about, the ablation of its parts, and the answer to a question about it.


@dataclass
class RepositoryState:
    """A repository, its environment and its baseline; empty if the study is not about one."""

    imported: RepositoryImported | None = None
    environment: EnvironmentBuilt | None = None
    command: CommandFound | None = None
    repair: RepairMade | None = None
    baseline: BaselineChecked | None = None

    @property
    def repaired_command(self) -> RepositoryCommand | None:
        """The command as it is run: with its repair, if it needed one."""
        found = self.repair or self.command
        return found.command if found is not None else None


@dataclass
class AblationState:
    """The parts of a repository that an ablation removes, and the results."""

    parts: PartsFound | None = None
    tried_mutations: dict[tuple[str, int], MutationTried] = field(default_factory=dict[tuple[str, int], MutationTried])
    results: AblationsConcluded | None = None


@dataclass
class QuestionState:
    """The experiment for a question about a repository, and the answer."""

    design: QuestionDesigned | None = None
    answer: QuestionAnswered | None = None


# The paper of a study: literature, figures, drafts, their reviews, the release and the judgement.


@dataclass(frozen=True)
class CurrentPaper:
    """The current paper of a run: the last released one, otherwise the latest draft, with its judgement."""

    version: int
    released: PaperReleased
    judged: PaperJudged | None = None


@dataclass
class PaperState:
    """The current version of the paper, and what all versions share."""

    context: ContextRead | None = None
    """Statements from the user's own documents; None before they are read, and if none were given."""
    prior_work: PriorWorkRead | None = None
    """Content of the closest papers. The appendix says that no prior work was read if this is None or `is_unread`."""
    library: LibraryChecked | None = None
    """The citable part of the user's library; None without one."""
    works_found: list[WorksFound] = field(default_factory=list[WorksFound])
    works_chosen: list[WorksChosen] = field(default_factory=list[WorksChosen])
    """Works gathered for the draft, over all versions of the paper."""
    figures: FiguresDrawn | None = None
    drafts: list[DraftAssessed] = field(default_factory=list[DraftAssessed])
    drafts_before: dict[int, int] = field(default_factory=dict[int, int])
    """Decision -> number of the drafts of its version that were recorded before it."""
    figure_reviews: dict[int, FiguresReviewed] = field(default_factory=dict[int, FiguresReviewed])
    claims_read: dict[int, ClaimsRead] = field(default_factory=dict[int, ClaimsRead])
    """Comparison of a draft's claims with the record, by its round."""
    sentence_readings: dict[str, SentenceReading] = field(default_factory=dict[str, SentenceReading])
    """Readings of sentences by hash, over all versions of the paper."""
    setup_readings: dict[str, SetupReading] = field(default_factory=dict[str, SetupReading])
    """Comparisons of sentences on the set-up with the facts, likewise."""
    released: PaperReleased | None = None
    judged: PaperJudged | None = None
    current: CurrentPaper | None = None
    version: int = 1
    """Paper version to which the current drafts, release and judgement belong."""
    template_sha256: str = ""
    """sha256 of the run's copy of the template used for drafts and release."""
    reviews: tuple[ReviewFile, ...] = ()
    """The reviews that the current version answers; empty for another version."""
    requests: RequestsRead | None = None
    reviewed_draft: PaperDraft | None = None
    answered: ReviewersAnswered | None = None

    def add_claims(self, event: ClaimsRead) -> None:
        """Fold the reading of a draft into the state."""
        self.claims_read[event.round] = event
        self.sentence_readings |= {one.sha256: one for one in event.readings}
        self.setup_readings |= {one.sha256: one for one in event.setup}

    def release(self, event: PaperReleased) -> None:
        """Fold a release, or the refusal of one, into the state."""
        self.released = event
        if event.released or self.current is None:
            self.current = CurrentPaper(self.version, event)

    def judge(self, event: PaperJudged) -> None:
        """Fold the judgement of the current version into the state."""
        self.judged = event
        if self.current is not None and self.current.released is self.released:
            self.current = replace(self.current, judged=event)

    def start_rewrite(self, event: RewriteStarted) -> None:
        """Begin the next version: drafts, release and judgement are its own."""
        self.reviews, self.requests, self.answered = event.reviews, None, None
        self.reviewed_draft = self.find_released_draft() if event.reviews else None
        self.version, self.template_sha256 = event.version, event.template or self.template_sha256
        self.drafts, self.figure_reviews, self.claims_read = [], {}, {}
        if "paper.bib" in event.settings:
            self.library = None
        self.released = self.judged = None
        if self.current is not None and not self.current.released.released:
            self.current = None

    def find_released_draft(self) -> PaperDraft | None:
        """Return the text that the current version printed at its release, or None before it."""
        printed = self.released.round if self.released is not None else None
        return next((one.draft for one in reversed(self.drafts) if one.round == printed), None)

    def format_task(self, name: str) -> str:
        """Return the name of a paper task for the current version; each version has its own decisions."""
        return name if self.version == 1 else f"{name} v{self.version}"


# The search of a study with a paper: its plan, stages, trials, comparisons, and sealed test data.


@dataclass
class StageState:
    """The state of one stage."""

    settlements: list[tuple[int, StageWinnerChosen]] = field(default_factory=list[tuple[int, StageWinnerChosen]])
    """The selected nodes (several if one became suspect), each with the last decision before its selection."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    limit_reason: str | None = None
    began_at: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def find_settlement(self, before: int | None = None) -> tuple[int, StageWinnerChosen] | None:
        """Return the last settlement, or the last one before a decision."""
        return next((one for one in reversed(self.settlements) if before is None or one[0] < before), None)

    @property
    def is_settled(self) -> bool:
        return bool(self.settlements)

    @property
    def best(self) -> str | None:
        return self.settlements[-1][1].best if self.settlements else None

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.settlements[-1][1].reasons if self.settlements else ()

    @property
    def end_reason(self) -> str | None:
        return self.settlements[-1][1].ended if self.settlements else None

    @property
    def summary(self) -> StageSummary | None:
        """The written report with the latest decision."""
        return self.reports[max(self.reports)] if self.reports else None


@dataclass
class SearchState:
    """The data plan and the tree search over it. `record.reducers.event_fold` folds its events."""

    data_plan: DataPlan | None = None
    amendments: list[PlanAmended] = field(default_factory=list[PlanAmended])
    protocol_review: ProtocolReviewed | None = None
    """The review of the plan by a second model; None before it."""
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[FrozenScorer, ...] = ()
    constants: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Metric -> dataset -> its value for a constant prediction on validation data."""
    installed_packages: InstalledPackages | None = None
    hub_items: tuple[HubItem, ...] = ()
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    comparisons: dict[tuple[str, str], NodesCompared] = field(default_factory=dict[tuple[str, str], NodesCompared])
    """Comparisons by pair of nodes, the one that was decided on earlier first."""
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict[tuple[str, int], Trial])
    """Every setting that was decided on for an arm, by arm and number."""
    trial_results: dict[str, tuple[TrialResult, ...]] = field(default_factory=dict[str, tuple[TrialResult, ...]])
    """Finished node with cells, before ablation -> the result of each setting that it measured."""
    selection_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> compute seconds of executions used for selection (`record.schema.nodes.SELECTION_KINDS`), before
    ablation."""
    widened_dimensions: dict[str, WidenDimension] = field(default_factory=dict[str, WidenDimension])
    probes: list[NodeProbed] = field(default_factory=list[NodeProbed])
    planned_ablations: AblationsPlanned | None = None
    missing_ablations: MissingAblationsNamed | None = None
    """Ablations that a reviewer of the draft would request; None if they were not determined."""
    addenda: list[AddendumRegistered] = field(default_factory=list[AddendumRegistered])
    """What was registered for reviewers of the paper, by version of the paper."""
    further_seeds_ended: int | None = None
    """The last decision before a limit refused further seeds of the ablations; None: none did."""
    code_readings: list[CodeRead] = field(default_factory=list[CodeRead])
    hours: HoursSetAside | None = None
    locks: list[tuple[int, ConfirmationLocked]] = field(default_factory=list[tuple[int, ConfirmationLocked]])
    """The locks of what is confirmed, each with the last decision before it."""
    looks: list[LookTaken] = field(default_factory=list[LookTaken])
    scored_at: float | None = None
    """Active seconds of the run when the test data were scored, after which the paper is written."""
    test_measurements: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled_intervals: dict[str, ResampledInterval] = field(default_factory=dict[str, ResampledInterval])
    """Intervals of differences from resampling the test examples, by key."""
    scoring_failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """The reason why a user's own scorer gave no test values for a node."""

    @property
    def plan(self) -> DataPlan:
        """The data plan of a run that has one; every run with a paper has."""
        assert self.data_plan is not None
        return self.data_plan

    @property
    def tested_datasets(self) -> tuple[DatasetFacts, ...]:
        """Datasets whose test part was scored."""
        return tuple(one for one in self.datasets if one.sizes.get("test")) if self.scored_at is not None else ()

    def find_setting(self, arm: str, trial: int) -> HyperparameterSetting:
        """Return the hyperparameters of an arm in a trial; an ablation uses those of another arm.

        An ablation of the method at the setting of another arm uses the method's defaults for hyperparameters that the
        arm lacks.
        """
        plan = self.data_plan
        assert plan is not None
        name = arm if (arm, trial) in self.trials else plan.find_tuned_arm(arm)
        setting = self.trials[name, trial].setting if trial else plan.find_defaults(name)
        method = next((one.name for one in plan.arms if one.role == "method"), name)
        return setting if name in (arm, method) else plan.find_defaults(method) | setting

    def find_cell_setting(self, cell: Cell) -> HyperparameterSetting:
        """Return the hyperparameters of a cell: its arm's, with those that a swapped setting replaces; none without a
        plan."""
        plan = self.data_plan
        if plan is None:
            return {}
        own = self.find_setting(cell.arm, cell.trial)
        if not cell.setting_of:
            return own
        shared = {one.name for one in plan.find_space(cell.arm)}
        other = self.find_setting(cell.setting_of, cell.setting_trial)
        return own | {name: value for name, value in other.items() if name in shared}

    @property
    def requested_ablations(self) -> tuple[MissingAblation, ...]:
        """The ablations requested after the draft, then those of addenda."""
        missing = self.missing_ablations.missing if self.missing_ablations is not None else ()
        return (*missing, *(one for addendum in self.addenda for one in addendum.items))

    @property
    def added_seeds(self) -> tuple[int, ...]:
        """Fresh seeds of addenda, which no claim of the first registration reads."""
        return tuple(seed for addendum in self.addenda for seed in addendum.seeds)

    @property
    def plan_hash(self) -> str:
        """sha256 of the canonical JSON of the data plan; the appendix of the paper prints its first digits."""
        return hashlib.sha256(self.data_plan.model_dump_json().encode()).hexdigest() if self.data_plan else ""

    @property
    def current_lock(self) -> ConfirmationLocked | None:
        """The current lock; None before there is one."""
        return self.locks[-1][1] if self.locks else None

    @property
    def stage(self) -> StageName | None:
        """The stage being searched; after the search the last stage, until every stage has its summary; then None.

        Follow-up work of a settled stage (replicates, their aggregate, its summary) runs during the next search.
        """
        unsettled: list[StageName] = [name for name in STAGES if not self.stages[name].is_settled]
        unreported: list[StageName] = [name for name in STAGES if self.stages[name].summary is None]
        return next(iter(unsettled or unreported), None)


@dataclass(frozen=True)
class DecisionContext:
    """Facts about the run that prompts mention in addition to its results (`RunState.limit_reason` and others)."""

    limit_reason: str | None
    skipped_kinds: frozenset[NodeKind]
    isolations: tuple[str, ...]


@dataclass(frozen=True)
class UserCommand:
    """A user command, the last decision before it, and the stage to which it applies."""

    after_decision: int
    received_at: float
    stage: StageName | None
    command: CommandReceived


@dataclass(frozen=True)
class Gate:
    """A gate that the run has reached."""

    reached: GateReached
    at: float
    """Time at which it was reached, in seconds since the epoch."""
    approval: CommandReceived | None = None
    """The command of the person who approved; None while the run waits."""
    refused: tuple[str, ...] = ()
    """What was wrong with the last change, if it was refused."""


@dataclass(frozen=True)
class AncestorRun:
    """A run from which this one, or one of its ancestors, branched, with its costs up to the branching.

    Usage and seconds are counted since the previous branching, if any.
    """

    branching: RunBranched
    decision: int
    """The last decision that was copied."""
    nodes: int
    usage: dict[str, RoleUsage]
    spent: Cost
    active_seconds: float
    experiment_seconds: float


class CellRunIndex(dict[str, tuple[str, CellRun]]):
    """Every execution of a cell by its id, in order, with its node; indexed by node and by key."""

    def __init__(self) -> None:
        super().__init__()
        self._of_node: dict[str, dict[str, CellRun]] = {}
        self._listed: dict[str, tuple[CellRun, ...]] = {}
        self._of_key: dict[str, dict[str, None]] = {}

    def __setitem__(self, name: str, found: tuple[str, CellRun]) -> None:
        node, run = found
        super().__setitem__(name, found)
        self._of_key.setdefault(run.key, {})[name] = None
        self._of_node.setdefault(node, {})[name] = run
        self._listed.pop(node, None)

    def list_node_runs(self, node: str) -> tuple[CellRun, ...]:
        """Return the executions for a node, in order; this is the same tuple object until another execution ends."""
        if node not in self._listed:
            self._listed[node] = tuple(self._of_node.get(node, {}).values())
        return self._listed[node]

    def list_key_runs(self, key: str) -> tuple[tuple[str, CellRun], ...]:
        """Return the executions under a key, in order, each with its node."""
        return tuple(self[name] for name in self._of_key.get(key, ()))

    @property
    def repeated(self) -> list[str]:
        """The keys that were executed more than once."""
        return [key for key, names in self._of_key.items() if len(names) > 1]


@dataclass
class RunState:
    """A study according to its log so far. Only `record.reducers` writes to it."""

    started: RunStarted | None = None
    started_at: float = 0.0
    last_event_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before the run was resumed."""
    event_count: int = 0
    decisions: dict[int, DecisionMade] = field(default_factory=dict[int, DecisionMade])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    step_since: dict[str, float] = field(default_factory=dict[str, float])
    """The time at which each node entered its current step, in seconds since the epoch."""
    required_cells: dict[str, CellsRequired] = field(default_factory=dict[str, CellsRequired])
    cells: CellRunIndex = field(default_factory=CellRunIndex)
    finished_decisions: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons made, waits, stage ends, and finished tasks."""
    decision_contexts: dict[int, DecisionContext] = field(default_factory=dict[int, DecisionContext])
    internal_faults: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Internal error (`Failure.ours`) -> affected nodes; reset when the error ended the run."""
    ancestry: list[AncestorRun] = field(default_factory=list[AncestorRun])
    """The points where this run and its ancestors branched off, the first ancestor first. Costs and times of the state
    belong to this run only."""
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings overridden on resume, by dotted key; later ones win."""
    models: tuple[str, ...] = ()
    isolations: tuple[str, ...] = ()
    """Isolation of code in each process that started or resumed the run (`RunStarted.isolation`)."""
    machines: tuple[Machine, ...] = ()
    """Machine of each of these processes."""
    rate: ComputeRate | None = None
    """Current measured speed of experiments; None: not measured."""
    user_commands: list[UserCommand] = field(default_factory=list[UserCommand])
    killed_nodes: dict[str, CommandReceived] = field(default_factory=dict[str, CommandReceived])
    """Nodes that the user wants to kill, finished or not."""
    stopping: bool = False
    paused_by: CommandReceived | None = None
    """The active pause command; None if not paused. No active seconds are counted during the pause."""
    gates: dict[GateName, Gate] = field(default_factory=dict[GateName, Gate])
    """The gates reached so far. No active seconds are counted while one waits."""
    recalled_studies: StudiesRecalled | None = None
    """Records of earlier studies that prompts show; None: no memory is used."""
    kept_study: StudyKept | None = None
    ignored_command_count: int = 0
    deleted_folders: dict[str, str] = field(default_factory=dict[str, str])
    """Deleted folder of checkpoints or artifacts -> the `keep` setting that applied."""
    freed_bytes: int = 0
    campaign: CampaignMembership | None = None
    limit_reason: str | None = None
    earlier_limits: tuple[str, ...] = ()
    """Limits that ended the work on versions of the paper that reviewers answered to."""
    outage: ProviderOutage | None = None
    """The current provider outage; None while models are available."""
    process_end: ProcessEnded | None = None
    skipped_kinds: frozenset[NodeKind] = frozenset()
    calls: CallState = field(default_factory=CallState)
    search: SearchState = field(default_factory=SearchState)
    paper: PaperState = field(default_factory=PaperState)
    repository: RepositoryState = field(default_factory=RepositoryState)
    ablation: AblationState = field(default_factory=AblationState)
    question: QuestionState = field(default_factory=QuestionState)
    ideation: IdeationState = field(default_factory=IdeationState)

    @property
    def last_decision(self) -> int:
        """The highest decision number, 0 before the first."""
        return next(reversed(self.decisions), 0)

    def list_stage_nodes(self, stage: StageName) -> list[Node]:
        """Return the nodes of a stage in decision order."""
        return [node for node in self.nodes.values() if node.stage == stage]

    def with_decision_context(self, decision_id: int) -> RunState:
        """Return the state with the parts on which prompts depend as of decision k, so that later renderings of prompts
        are identical.
        """
        terms = self.decision_contexts.get(decision_id)
        return self if terms is None else replace(self, **vars(terms))

    @property
    def reuses_test_data(self) -> bool:
        """Whether the run branched off a run whose test data were already scored, so they cannot confirm a claim."""
        return any(one.branching.tested for one in self.ancestry)

    @property
    def open_gate(self) -> Gate | None:
        """The gate at which the run waits for a person; None too if it was removed from the settings since."""
        waiting = (gate for gate in self.gates.values() if gate.approval is None)
        return next((gate for gate in waiting if self.has_gate(gate.reached.gate)), None)

    def list_earlier_studies(self) -> tuple[EarlierStudy, ...]:
        """Return the records of earlier studies that prompts show."""
        return tuple(one.study for one in self.recalled_studies.shown) if self.recalled_studies is not None else ()

    def has_gate(self, gate: GateName) -> bool:
        """Return whether the settings ask the run to wait at a gate."""
        return gate in (self.read_setting("gates") or ())

    def find_approval(self, gate: GateName) -> CommandReceived | None:
        """Return the command by which a person let the run pass a gate; None if nobody did."""
        return self.gates[gate].approval if gate in self.gates else None

    @property
    def is_paused(self) -> bool:
        """Whether the user paused the run, or it waits at a gate."""
        return self.paused_by is not None or self.open_gate is not None

    def compute_seed(self, decision_id: int) -> int:
        """Return the seed of decision k: that of the run, or of the last branching before the decision."""
        assert self.started is not None
        return next(
            (one.branching.seed for one in reversed(self.ancestry) if one.decision < decision_id), self.started.seed
        )

    def compute_variation(self, decision_id: int) -> int:
        """Return a number that distinguishes decision k from the same decision in other branches; 0 if not needed."""
        assert self.started is not None
        seed = self.compute_seed(decision_id)
        return 0 if seed == self.started.seed else seed

    @property
    def user_nodes(self) -> list[Node]:
        """The nodes whose code the user wrote."""
        return [node for node in self.nodes.values() if node.author]

    @property
    def notes(self) -> list[UserCommand]:
        """Notes from the user."""
        return [one for one in self.user_commands if one.command.verb == "note"]

    def list_notes(self, decision_id: int, stage: StageName) -> tuple[str, ...]:
        """Return the notes for a stage from before decision k, as its prompts show them even when they are rendered
        again.
        """
        return tuple(one.command.text for one in self.notes if one.after_decision < decision_id and one.stage == stage)

    def list_marks_since(self, decision_id: int) -> list[CommandReceived]:
        """Return the marks made after decision k, which that decision and its prompts must not use."""
        late = (one.command for one in self.user_commands if one.after_decision >= decision_id)
        return [one for one in late if one.verb == "mark"]

    def find_stage_end(self, stage: StageName) -> DecisionMade | None:
        """Return the decision that ended the search of a stage, if any."""
        return next(
            (one for one in self.decisions.values() if isinstance(one.action, EndStage) and one.action.stage == stage),
            None,
        )

    def is_task_done(self, task: str) -> bool:
        """Return whether a task outside the search was decided on and is finished."""
        return any(k in self.finished_decisions for k, d in self.decisions.items() if d.action == RunTask(task=task))

    @property
    def kind(self) -> StudyKind:
        """The kind of the study."""
        return self.started.kind if self.started is not None else "paper"

    @property
    def phase(self) -> Phase:
        """The next phase of the state machine, as used by the router of `agent.state_machine`."""
        if self.kind != "paper":
            return next(phase for phase in PHASES[self.kind] if not self.is_task_done(phase))
        if self.search.data_plan is None:
            return "prepare"
        if self.search.stage is not None:
            return self.search.stage
        if not self.is_task_done("score tests"):
            return "score"
        if self.paper.reviews and not self.is_task_done(self.paper.format_task("addendum")):
            return "addendum"
        if self.paper.figures is None:
            return "figures"
        if not self.paper.drafts:
            return "write"
        if not any(one.done for one in self.paper.drafts):
            return "cite" if self._needs_citations else "reflect"
        if self.paper.released is None:  # missing ablations are requested once, for the first version of the paper
            asked_for = (self.read_setting("paper.missing_ablations") or 0) > 0 and self.paper.version == 1
            return "missing" if asked_for and not self.is_task_done(MISSING_ABLATIONS_TASK.task) else "release"
        if self.paper.reviews and self.paper.answered is None:
            return "respond"
        return "judge" if self.paper.judged is None else "done"

    @property
    def _needs_citations(self) -> bool:
        """Whether citations must still be gathered for the first draft of this version."""
        begun = any(one.action == RunTask(task=self.paper.format_task("reflect")) for one in self.decisions.values())
        if len(self.paper.drafts) != 1 or self.limit_reason is not None or begun:
            return False
        wanted = self.read_setting("literature.sources") and self.read_setting("paper.citation_rounds")
        return bool(wanted) and not self.is_task_done(self.paper.format_task("cite"))

    @property
    def gpus_per_experiment(self) -> float:
        """GPUs per experiment: the current setting, or more if an arm needs more, times its share of a shared GPU; 0
        on the CPU."""
        if self.read_setting("sandbox.device") != "cuda":
            return 0
        arms = self.search.data_plan.arms if self.search.data_plan is not None else ()
        gpus = max(int(self.read_setting("sandbox.gpus_per_node") or 1), *(arm.needs.gpus or 0 for arm in arms), 0)
        return gpus / int(self.read_setting("sandbox.slots_per_gpu") or 1)

    def read_setting(self, key: str) -> Any:
        """Return the current value of a setting by its dotted key; None if the record has none."""
        if key in self.overrides:
            return self.overrides[key]
        value: Any = self.started.settings if self.started is not None else {}
        for name in key.split("."):
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        return value

    @property
    def time_limit(self) -> float | None:
        """Time limit of the run in seconds; None if the record has none, or not as a number."""
        limit = self.read_setting("time_limit")
        return float(limit) if isinstance(limit, int | float) else None

    @property
    def experiment_seconds(self) -> float:
        """Seconds that experiments ran, over all attempts of this run, excluding those before it branched off."""
        ran = sum(attempt.seconds for node in self.nodes.values() for attempt in node.attempts)
        return ran - sum(one.experiment_seconds for one in self.ancestry)


def describe_nodes(state: RunState) -> str:
    """Describe the nodes of a run, for an error message about an unknown node."""
    names = list(state.nodes)
    return f"{names[0]} to {names[-1]}" if names else "no nodes yet"


MARK_PREFIX = "marked by a person: "
"""Prefix of a reason for suspicion that comes from the user."""


def collect_mark_reasons(state: RunState, mark: CommandReceived) -> dict[str, str]:
    """Return the nodes to which a mark applies, with reasons; ablations of a suspect node are suspect too."""
    if mark.mark == "closed":
        return {mark.target: mark.text}
    found = {mark.target: MARK_PREFIX + mark.text}
    for node in state.nodes.values():  # parents come before their children
        if node.stage == "ablation" and node.parent in found:
            found[node.id] = f"{MARK_PREFIX}as {mark.target}, which it rests on: {mark.text}"
    return found
