"""Fields of the state of a run, written only by `record.reducers`, and the types they consist of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from labwright.record.events import paper_events, repository_events, run_events, search_events
from labwright.record.machine import ComputeRate, Machine
from labwright.record.schema.claims import SentenceReading, SetupReading
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
from labwright.record.schema.nodes import STAGES, CellRun, Failure, Node, NodeKind, StageName, StageSummary, TrialResult
from labwright.record.schema.packages import InstalledPackages
from labwright.record.schema.tuning import Trial


@dataclass
class StageState:
    """The state of one stage."""

    settlements: list[tuple[int, search_events.StageWinnerChosen]] = field(
        default_factory=list[tuple[int, search_events.StageWinnerChosen]]
    )
    """The selected nodes (several if one became suspect), each with the last decision before its selection."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    limit_reason: str | None = None
    began_at: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def find_settlement(self, before: int | None = None) -> tuple[int, search_events.StageWinnerChosen] | None:
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


@dataclass(frozen=True)
class DecisionContext:
    """Facts about the run that prompts mention in addition to its results (`RunState.limit_reason` and others)."""

    limit_reason: str | None
    skipped_kinds: frozenset[NodeKind]
    isolations: tuple[str, ...]


@dataclass
class RoleUsage:
    """Usage by the calls of one role."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from the providers' caches."""
    cache_write_tokens: int = 0
    cached_usd: float = 0.0
    """Part of `usd` for cached tokens."""
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


def sum_usage(found: Iterable[RoleUsage]) -> RoleUsage:
    """Return the sum of several usages."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass(frozen=True)
class UserCommand:
    """A user command, the last decision before it, and the stage to which it applies."""

    after_decision: int
    received_at: float
    stage: StageName | None
    command: run_events.CommandReceived


@dataclass(frozen=True)
class AncestorRun:
    """A run from which this one, or one of its ancestors, branched, with its costs up to the branching.

    Usage and seconds are counted since the previous branching, if any.
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
    """The state of the study of a user's repository."""

    imported: repository_events.RepositoryImported | None = None
    environment: repository_events.EnvironmentBuilt | None = None
    command: repository_events.CommandFound | None = None
    repairs: list[repository_events.RepairTried] = field(default_factory=list[repository_events.RepairTried])
    baseline: repository_events.BaselineChecked | None = None
    parts: repository_events.PartsFound | None = None
    tried_mutations: dict[tuple[str, int], repository_events.MutationTried] = field(
        default_factory=dict[tuple[str, int], repository_events.MutationTried]
    )
    """Outcome of each mutation by part and index."""
    ablation_results: repository_events.AblationsConcluded | None = None
    question_design: repository_events.QuestionDesigned | None = None
    question_answer: repository_events.QuestionAnswered | None = None


class CellRunIndex(dict[str, tuple[str, CellRun]]):
    """Every execution of a cell by its id, in order, with its node; indexed by node and by key."""

    def __init__(self) -> None:
        super().__init__()
        self._of_node: dict[str, dict[str, CellRun]] = {}
        self._listed: dict[str, tuple[CellRun, ...]] = {}
        self._of_key: dict[str, tuple[str, ...]] = {}
        self.repeated: dict[str, None] = {}
        """The keys that were executed more than once."""
        self.runs_with_leftovers: dict[str, None] = {}
        """Executions that failed or left artifacts; only their files may be deleted."""

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
        """Return the executions for a node, in order; this is the same tuple object until another execution ends."""
        if node not in self._listed:
            self._listed[node] = tuple(self._of_node.get(node, {}).values())
        return self._listed[node]

    def list_key_runs(self, key: str) -> tuple[tuple[str, CellRun], ...]:
        """Return the executions under a key, in order, each with its node."""
        return tuple(self[name] for name in self._of_key.get(key, ()))


@dataclass(frozen=True)
class CurrentPaper:
    """The current paper of a run: the last released one, otherwise the latest draft, with its judgement."""

    version: int
    released: paper_events.PaperReleased
    judged: paper_events.PaperJudged | None = None


@dataclass
class RunStateFields:
    """The folded fields. Read them through `record.reducers.run_state.RunState`, which adds derived values."""

    started: run_events.RunStarted | None = None
    started_at: float = 0.0
    last_event_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before the run was resumed."""
    event_count: int = 0
    data_plan: DataPlan | None = None
    amendments: list[search_events.PlanAmended] = field(default_factory=list[search_events.PlanAmended])
    locks: list[tuple[int, search_events.ConfirmationLocked]] = field(
        default_factory=list[tuple[int, search_events.ConfirmationLocked]]
    )
    """The locks of what is confirmed, each with the last decision before it."""
    looks: list[search_events.LookTaken] = field(default_factory=list[search_events.LookTaken])
    """The looks at the fresh seeds of the current lock, in order."""
    hours: search_events.HoursSetAside | None = None
    """The latest plan of the run's computing time."""
    scored_at: float | None = None
    """Active seconds of the run when the test data were scored, after which the paper is written."""
    protocol_review: search_events.ProtocolReviewed | None = None
    """The review of the plan by a second model; None before it."""
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[FrozenScorer, ...] = ()
    installed_packages: InstalledPackages | None = None
    """Packages installed for the run."""
    hub_items: tuple[HubItem, ...] = ()
    """Models and datasets that the plan uses from the hub."""
    decisions: dict[int, search_events.DecisionMade] = field(default_factory=dict[int, search_events.DecisionMade])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    step_since: dict[str, float] = field(default_factory=dict[str, float])
    """The time at which each node entered its current step, in seconds since the epoch."""
    required_cells: dict[str, search_events.CellsRequired] = field(
        default_factory=dict[str, search_events.CellsRequired]
    )
    """The cells that each node has to run."""
    cells: CellRunIndex = field(default_factory=CellRunIndex)
    selection_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> compute seconds of executions used for selection (`record.schema.nodes.SELECTION_KINDS`), before
    ablation."""
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict[tuple[str, int], Trial])
    """Every setting that was decided on for an arm, by arm and number."""
    trial_results: dict[str, tuple[TrialResult, ...]] = field(default_factory=dict[str, tuple[TrialResult, ...]])
    """Finished node with cells, before ablation -> the result of each setting that it measured."""
    widened_dimensions: dict[str, WidenDimension] = field(default_factory=dict[str, WidenDimension])
    """Widened dimensions of the search space, by name."""
    finished_decisions: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons made, waits, stage ends, and finished tasks."""
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    answers: dict[CallKey, run_events.CallAnswered] = field(default_factory=dict[CallKey, run_events.CallAnswered])
    superseded_answers: list[run_events.CallAnswered] = field(default_factory=list[run_events.CallAnswered])
    """Answers to questions that later changed; their replacements are in `answers`."""
    tool_uses: dict[CallKey, run_events.ToolUsed] = field(default_factory=dict[CallKey, run_events.ToolUsed])
    """Results of the tools that authors called, by the answer that called them."""
    changed_prompts: dict[CallKey, run_events.PromptChanged] = field(
        default_factory=dict[CallKey, run_events.PromptChanged]
    )
    unanswered_calls: dict[CallKey, run_events.CallUnanswered] = field(
        default_factory=dict[CallKey, run_events.CallUnanswered]
    )
    decision_contexts: dict[int, DecisionContext] = field(default_factory=dict[int, DecisionContext])
    usage_by_role: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    call_counts: Counter[int] = field(default_factory=Counter[int])
    """Number of model calls by decision."""
    comparisons: dict[tuple[str, str], search_events.NodesCompared] = field(
        default_factory=dict[tuple[str, str], search_events.NodesCompared]
    )
    """Comparisons by pair of nodes, the one that was decided on earlier first."""
    test_measurements: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled_intervals: dict[str, ResampledInterval] = field(default_factory=dict[str, ResampledInterval])
    """Intervals of differences from resampling the test examples, by key."""
    scoring_failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """The reason why a user's own scorer gave no test values for a node."""
    internal_faults: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Internal error (`Failure.ours`) -> affected nodes; reset when the error ended the run."""
    probes: list[search_events.NodeProbed] = field(default_factory=list[search_events.NodeProbed])
    code_readings: list[search_events.CodeRead] = field(default_factory=list[search_events.CodeRead])
    """Readings of the code behind the paper by a second role."""
    planned_ablations: search_events.AblationsPlanned | None = None
    """The ablations of the ablation stage; None before planning, or without planning."""
    missing_ablations: search_events.MissingAblationsNamed | None = None
    """Ablations that a reviewer of the draft would request; None if they were not determined."""
    library: paper_events.LibraryChecked | None = None
    """The citable part of the user's library; None without one."""
    works_found: list[paper_events.WorksFound] = field(default_factory=list[paper_events.WorksFound])
    works_chosen: list[paper_events.WorksChosen] = field(default_factory=list[paper_events.WorksChosen])
    """Works gathered for the draft, over all versions of the paper."""
    figures: paper_events.FiguresDrawn | None = None
    drafts: list[paper_events.DraftAssessed] = field(default_factory=list[paper_events.DraftAssessed])
    figure_reviews: dict[int, paper_events.FiguresReviewed] = field(
        default_factory=dict[int, paper_events.FiguresReviewed]
    )
    claims_read: dict[int, paper_events.ClaimsRead] = field(default_factory=dict[int, paper_events.ClaimsRead])
    """Comparison of a draft's claims with the record, by its round."""
    sentence_readings: dict[str, SentenceReading] = field(default_factory=dict[str, SentenceReading])
    """Readings of sentences by hash, over all versions of the paper."""
    setup_readings: dict[str, SetupReading] = field(default_factory=dict[str, SetupReading])
    """Comparisons of sentences on the set-up with the facts, likewise."""
    released: paper_events.PaperReleased | None = None
    judged: paper_events.PaperJudged | None = None
    """Judgement of the current version."""
    current_paper: CurrentPaper | None = None
    context: paper_events.ContextRead | None = None
    """Statements from the user's own documents; None before they are read, and if none were given."""
    prior_work: paper_events.PriorWorkRead | None = None
    """Content of the closest papers. The appendix says that no prior work was read if this is None or `is_unread`."""
    repository_state: RepositoryState = field(default_factory=RepositoryState)
    """The repository that the record is about; empty if it is not about one."""
    ideation: paper_events.IdeationStarted | None = None
    """The topic of an ideation; None in a run."""
    literature_searches: dict[tuple[int, int], paper_events.LiteratureSearched] = field(
        default_factory=dict[tuple[int, int], paper_events.LiteratureSearched]
    )
    proposed_ideas: dict[int, paper_events.IdeaProposed] = field(default_factory=dict[int, paper_events.IdeaProposed])
    paper_version: int = 1
    """Paper version to which the current drafts, release and judgement belong."""
    template_sha256: str = ""
    """sha256 of the run's copy of the template used for drafts and release."""
    ancestry: list[AncestorRun] = field(default_factory=list[AncestorRun])
    """The points where this run and its ancestors branched off, the first ancestor first. Costs and times of the state
    belong to this run only.
    """
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
    killed_nodes: dict[str, run_events.CommandReceived] = field(default_factory=dict[str, run_events.CommandReceived])
    """Nodes that the user wants to kill, finished or not."""
    stopping: bool = False
    paused_by: run_events.CommandReceived | None = None
    """The active pause command; None if not paused. No active seconds are counted during the pause."""
    ignored_command_count: int = 0
    deleted_folders: dict[str, str] = field(default_factory=dict[str, str])
    """Deleted folder of checkpoints or artifacts -> the `keep` setting that applied."""
    freed_bytes: int = 0
    """Bytes freed by deletions in this run."""
    llm_usage: tuple[StudiedLLMUsage, ...] = ()
    campaign: run_events.CampaignMembership | None = None
    """Usage of studied language models by experiments, up to the last task outside the search."""
    limit_reason: str | None = None
    outage: run_events.ProviderOutage | None = None
    """The current provider outage; None while models are available."""
    process_end: run_events.ProcessEnded | None = None
    skipped_kinds: frozenset[NodeKind] = frozenset()
    settled_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Cost of the answers and attempts of each decision."""
    lost_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Reservations of calls and attempts of a decision that were killed, or that failed with an unknown cost."""
    reservations: dict[str, run_events.CostReserved] = field(default_factory=dict[str, run_events.CostReserved])
    """Reservations for calls and attempts in progress, by `CostReserved.name`."""
