"""The fields of the state of a run, which `record.reducers.event_fold` alone writes, and what they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from labwright.record.events import paper_events, repository_events, run_events, search_events
from labwright.record.machine import ComputeRate, Machine
from labwright.record.schema.data_plan import (
    DataPlan,
    DatasetFacts,
    FrozenScorer,
    HubItem,
    Measurement,
    ResampledInterval,
)
from labwright.record.schema.decisions import CallKey, Cost, WidenDimension
from labwright.record.schema.llm_exchanges import StudiedLLMUsage
from labwright.record.schema.nodes import STAGES, CellRun, Failure, Node, NodeKind, StageName, StageSummary
from labwright.record.schema.packages import InstalledPackages
from labwright.record.schema.tuning import Trial


@dataclass
class StageState:
    """What is known of one stage."""

    settlements: list[tuple[int, search_events.StageWinnerChosen]] = field(
        default_factory=list[tuple[int, search_events.StageWinnerChosen]]
    )
    """What it settled on, and again where that turned out suspect, each with the last decision before it."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    limit_reason: str | None = None
    began_at: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def find_settlement(self, before: int | None = None) -> tuple[int, search_events.StageWinnerChosen] | None:
        """What it settled on last, or last before a decision was made."""
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
        """The report that was decided on last, of those that are written."""
        return self.reports[max(self.reports)] if self.reports else None


@dataclass(frozen=True)
class DecisionContext:
    """What prompts tell of a run as a whole beside its results: `RunState.limited` and so on."""

    limit_reason: str | None
    skipped_kinds: frozenset[NodeKind]
    isolations: tuple[str, ...]


@dataclass
class RoleUsage:
    """What the calls of one role took."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the providers' caches."""
    cache_write_tokens: int = 0
    cached_usd: float = 0.0
    """Of `usd`, what the cached tokens took."""
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


def sum_usage(found: Iterable[RoleUsage]) -> RoleUsage:
    """The sum of all."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass(frozen=True)
class UserCommand:
    """What a person asked of a run, the last decision before it, and the stage that it is for."""

    after_decision: int
    received_at: float
    stage: StageName | None
    command: run_events.CommandReceived


@dataclass(frozen=True)
class AncestorRun:
    """A run that this one, or one that it descends from, branched off, and what had been taken by then.

    Usage and seconds are what was taken since the branching before it, if there was one.
    """

    branching: run_events.RunBranched
    branched_at: float
    decision: int
    """The last decision that was copied."""
    nodes: int
    usage: dict[str, RoleUsage]
    spent: Cost
    active_seconds: float
    experiment_seconds: float


@dataclass
class RepositoryState:
    """What is known of a user's repository."""

    imported: repository_events.RepositoryImported | None = None
    environment: repository_events.EnvironmentBuilt | None = None
    command: repository_events.CommandFound | None = None
    repairs: list[repository_events.RepairTried] = field(default_factory=list[repository_events.RepairTried])
    baseline: repository_events.BaselineChecked | None = None
    parts: repository_events.PartsFound | None = None
    tried_mutations: dict[tuple[str, int], repository_events.MutationTried] = field(
        default_factory=dict[tuple[str, int], repository_events.MutationTried]
    )
    """What came of each way to take a part out, by part and number of the way."""
    runs: dict[str, repository_events.CommandEnded] = field(default_factory=dict[str, repository_events.CommandEnded])
    """Every run of the command by its key, in the order in which they ended."""
    ablation_results: repository_events.AblationsConcluded | None = None
    question_design: repository_events.QuestionDesigned | None = None
    question_runs: dict[int, repository_events.QuestionRun] = field(
        default_factory=dict[int, repository_events.QuestionRun]
    )
    """Of an experiment that answers a question, by number; 0: the repository as it is."""
    question_answer: repository_events.QuestionAnswered | None = None


class CellRunIndex(dict[str, tuple[str, CellRun]]):
    """Every execution of a cell by its id, in order, with the node that it was for: those of a node or of a key are
    found without a look at the others."""

    def __init__(self) -> None:
        super().__init__()
        self._of_node: dict[str, dict[str, CellRun]] = {}
        self._listed: dict[str, tuple[CellRun, ...]] = {}
        self._of_key: dict[str, tuple[str, ...]] = {}
        self.repeated: dict[str, None] = {}
        """The keys that were executed more than once."""
        self.runs_with_leftovers: dict[str, None] = {}
        """The executions that failed or left artifacts: what may be deleted one day is theirs."""

    def __setitem__(self, name: str, found: tuple[str, CellRun]) -> None:
        node, run = found
        known = self._of_key.get(run.key, ())
        if name not in known:
            self._of_key[run.key] = (*known, name)
            if known:
                self.repeated[run.key] = None
        if run.artifacts or run.failure is not None:
            self.runs_with_leftovers[name] = None
        else:
            self.runs_with_leftovers.pop(name, None)
        super().__setitem__(name, found)
        self._of_node.setdefault(node, {})[name] = run
        self._listed.pop(node, None)

    def list_node_runs(self, node: str) -> tuple[CellRun, ...]:
        """The executions that were for a node, in order; the very same tuple until there is another one."""
        if node not in self._listed:
            self._listed[node] = tuple(self._of_node.get(node, {}).values())
        return self._listed[node]

    def list_key_runs(self, key: str) -> tuple[tuple[str, CellRun], ...]:
        """The executions under a key, in order, each with its node."""
        return tuple(self[name] for name in self._of_key.get(key, ()))


@dataclass(frozen=True)
class CurrentPaper:
    """The paper that a run has: the one that was released last, else the latest draft, as it was judged."""

    version: int
    released: paper_events.PaperReleased
    judged: paper_events.PaperJudged | None = None


@dataclass
class RunStateFields:
    """What is folded. Read it as `record.reducers.run_state.RunState`, which is these fields with what
    follows from them.
    """

    started: run_events.RunStarted | None = None
    started_at: float = 0.0
    last_event_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before a process took the run up again."""
    event_count: int = 0
    data_plan: DataPlan | None = None
    amendments: list[search_events.PlanAmended] = field(default_factory=list[search_events.PlanAmended])
    locks: list[tuple[int, search_events.ConfirmationLocked]] = field(
        default_factory=list[tuple[int, search_events.ConfirmationLocked]]
    )
    """What was locked to be confirmed, each with the last decision before it."""
    protocol_review: search_events.ProtocolReviewed | None = None
    """What a second reader said of the plan; None before, and in runs of older versions."""
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[FrozenScorer, ...] = ()
    installed_packages: InstalledPackages | None = None
    """Packages that were installed for the run."""
    hub_items: tuple[HubItem, ...] = ()
    """What the plan took of the hub."""
    decisions: dict[int, search_events.DecisionMade] = field(default_factory=dict[int, search_events.DecisionMade])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    step_since: dict[str, float] = field(default_factory=dict[str, float])
    """When each node went over to the step that it is in, in seconds since the epoch."""
    required_cells: dict[str, search_events.CellsRequired] = field(
        default_factory=dict[str, search_events.CellsRequired]
    )
    """What each node of cells has to measure."""
    cells: CellRunIndex = field(default_factory=CellRunIndex)
    selection_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> seconds of computing of what was selected by (`record.schema.nodes.LOOKS`), before the last stage."""
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict[tuple[str, int], Trial])
    """Every setting that was decided on for an arm, by its number."""
    widened_dimensions: dict[str, WidenDimension] = field(default_factory=dict[str, WidenDimension])
    """Dimensions of the space that were widened, by name."""
    finished_decisions: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons answered, waits, ends, and finished work."""
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    answers: dict[CallKey, run_events.CallAnswered] = field(default_factory=dict[CallKey, run_events.CallAnswered])
    superseded_answers: list[run_events.CallAnswered] = field(default_factory=list[run_events.CallAnswered])
    """Answers to questions that had changed when they came up again; those that took their place are in `answers`."""
    changed_prompts: dict[CallKey, run_events.PromptChanged] = field(
        default_factory=dict[CallKey, run_events.PromptChanged]
    )
    unanswered_calls: dict[CallKey, run_events.CallUnanswered] = field(
        default_factory=dict[CallKey, run_events.CallUnanswered]
    )
    decision_contexts: dict[int, DecisionContext] = field(default_factory=dict[int, DecisionContext])
    usage_by_role: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    call_counts: Counter[int] = field(default_factory=Counter[int])
    """Model calls by decision."""
    comparisons: dict[tuple[str, str], search_events.NodesCompared] = field(
        default_factory=dict[tuple[str, str], search_events.NodesCompared]
    )
    """Answered comparisons by pair, the node that was decided on earlier first."""
    test_measurements: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled_intervals: dict[str, ResampledInterval] = field(default_factory=dict[str, ResampledInterval])
    """What resampling the test examples says of differences, by their key."""
    scoring_failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """Why a scorer of the user's own gave no test values of a node."""
    internal_faults: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Fault of ours (`Failure.ours`) -> nodes that met it; those of one that ended the run count no more."""
    probes: list[search_events.NodeProbed] = field(default_factory=list[search_events.NodeProbed])
    code_readings: list[search_events.CodeRead] = field(default_factory=list[search_events.CodeRead])
    """Of the code behind the paper, by a second role."""
    planned_ablations: search_events.AblationsPlanned | None = None
    """The ablations of the last stage; None before they are planned, and where nobody planned any."""
    missing_ablations: search_events.MissingAblationsNamed | None = None
    """What a reviewer of the draft would ask for; None before that was asked, and where it was not."""
    library: paper_events.LibraryChecked | None = None
    """What of the given library may be cited; None without one."""
    works_found: list[paper_events.WorksFound] = field(default_factory=list[paper_events.WorksFound])
    works_chosen: list[paper_events.WorksChosen] = field(default_factory=list[paper_events.WorksChosen])
    """What was gathered for the draft, over all writings of the paper."""
    figures: paper_events.FiguresDrawn | None = None
    drafts: list[paper_events.DraftAssessed] = field(default_factory=list[paper_events.DraftAssessed])
    figure_reviews: dict[int, paper_events.FiguresReviewed] = field(
        default_factory=dict[int, paper_events.FiguresReviewed]
    )
    scope_checks: dict[int, paper_events.ScopeChecked] = field(default_factory=dict[int, paper_events.ScopeChecked])
    released: paper_events.PaperReleased | None = None
    judged: paper_events.PaperJudged | None = None
    """Of the writing that goes on, or went on last."""
    current_paper: CurrentPaper | None = None
    context: paper_events.ContextRead | None = None
    """What the person's own documents say; None before they are read, and where none were given."""
    prior_work: paper_events.PriorWorkRead | None = None
    """What the closest papers used. Page one says "prior work unread" where this is None or `unread`."""
    repository_state: RepositoryState = field(default_factory=RepositoryState)
    """The repository that the record is of; empty where it is of none."""
    ideation: paper_events.IdeationStarted | None = None
    """The topic of an ideation; None in a run."""
    literature_searches: dict[tuple[int, int], paper_events.LiteratureSearched] = field(
        default_factory=dict[tuple[int, int], paper_events.LiteratureSearched]
    )
    proposed_ideas: dict[int, paper_events.IdeaProposed] = field(default_factory=dict[int, paper_events.IdeaProposed])
    paper_version: int = 1
    """Which writing of the paper drafts, release and judgement are of."""
    template_sha256: str = ""
    """sha256 of the run's copy of the template that drafts and release are set with."""
    ancestry: list[AncestorRun] = field(default_factory=list[AncestorRun])
    """Where this run branched off, the first ancestor first. Costs and times of the state are this run's own."""
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings that were given when the run was taken up again, by dotted key; later ones win."""
    models: tuple[str, ...] = ()
    isolations: tuple[str, ...] = ()
    """How code ran, in the process that started the run and in those that took it up (`Started.isolation`)."""
    machines: tuple[Machine, ...] = ()
    """Where it ran, in the same processes."""
    rate: ComputeRate | None = None
    """How fast experiments run, on the terms on which the run goes on; None where nobody measured it."""
    user_commands: list[UserCommand] = field(default_factory=list[UserCommand])
    killed_nodes: dict[str, run_events.CommandReceived] = field(default_factory=dict[str, run_events.CommandReceived])
    """Nodes that a person wants ended, finished or not."""
    stopping: bool = False
    paused_by: run_events.CommandReceived | None = None
    """The request by which nothing new is begun; None while there is none. No active seconds pass meanwhile."""
    ignored_command_count: int = 0
    deleted_folders: dict[str, str] = field(default_factory=dict[str, str])
    """Folder of checkpoints or artifacts that went -> the setting `keep` by which it did."""
    freed_bytes: int = 0
    """Bytes that were freed in this run with it."""
    llm_usage: tuple[StudiedLLMUsage, ...] = ()
    campaign: run_events.CampaignMembership | None = None
    """What experiments asked language models, up to the last step outside the search."""
    limit_reason: str | None = None
    outage: run_events.ProviderOutage | None = None
    """Why no model is asked, and until when; None while they are."""
    process_end: run_events.ProcessEnded | None = None
    skipped_kinds: frozenset[NodeKind] = frozenset()
    settled_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """What the answers and attempts of each decision took."""
    lost_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """What was set aside for calls and attempts of a decision that a kill cut off, or that failed with an open bill."""
    reservations: dict[str, run_events.CostReserved] = field(default_factory=dict[str, run_events.CostReserved])
    """What is set aside for calls and attempts under way, by `Reserved.name`."""
