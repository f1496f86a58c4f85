"""The fields of the state of a run, which `record.fold.apply` alone writes, and what they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from labwright.record.events import papers, repository, running, searching
from labwright.record.machine import Machine, Rate
from labwright.record.nouns.data import DataPlan, DatasetFacts, Measurement, OnHub, OverExamples, Scorer
from labwright.record.nouns.decisions import CallKey, Extend, Spending
from labwright.record.nouns.nodes import STAGES, CellRun, Failure, Node, NodeKind, StageName, StageSummary
from labwright.record.nouns.packages import Installed
from labwright.record.nouns.subjects import SubjectUse
from labwright.record.nouns.tuning import Trial


@dataclass
class StageState:
    """What is known of one stage."""

    settlements: list[tuple[int, searching.Settled]] = field(default_factory=list[tuple[int, searching.Settled]])
    """What it settled on, and again where that turned out suspect, each with the last decision before it."""
    reports: dict[int, StageSummary] = field(default_factory=dict[int, StageSummary])
    limited: str | None = None
    began: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""

    def settlement(self, before: int | None = None) -> tuple[int, searching.Settled] | None:
        """What it settled on last, or last before a decision was made."""
        return next((one for one in reversed(self.settlements) if before is None or one[0] < before), None)

    @property
    def settled(self) -> bool:
        return bool(self.settlements)

    @property
    def best(self) -> str | None:
        return self.settlements[-1][1].best if self.settlements else None

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.settlements[-1][1].reasons if self.settlements else ()

    @property
    def ended(self) -> str | None:
        return self.settlements[-1][1].ended if self.settlements else None

    @property
    def summary(self) -> StageSummary | None:
        """The report that was decided on last, of those that are written."""
        return self.reports[max(self.reports)] if self.reports else None


@dataclass(frozen=True)
class Terms:
    """What prompts tell of a run as a whole beside its results: `RunState.limited` and so on."""

    limited: str | None
    without: frozenset[NodeKind]
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


def total_of(found: Iterable[RoleUsage]) -> RoleUsage:
    """The sum of all."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass(frozen=True)
class Steered:
    """What a person asked of a run, the last decision before it, and the stage that it is for."""

    after: int
    at: float
    stage: StageName | None
    command: running.Commanded


@dataclass(frozen=True)
class Ancestor:
    """A run that this one, or one that it descends from, branched off, and what had been taken by then.

    Usage and seconds are what was taken since the branching before it, if there was one.
    """

    event: running.Branched
    at: float
    decision: int
    """The last decision that was copied."""
    nodes: int
    usage: dict[str, RoleUsage]
    spent: Spending
    active_seconds: float
    seconds_of_code: float


@dataclass
class CodeState:
    """What is known of a user's repository."""

    taken: repository.CodeTaken | None = None
    environment: repository.EnvironmentBuilt | None = None
    command: repository.CommandFound | None = None
    repairs: list[repository.Repaired] = field(default_factory=list[repository.Repaired])
    baseline: repository.BaselineChecked | None = None
    parts: repository.PartsFound | None = None
    patched: dict[tuple[str, int], repository.Patched] = field(
        default_factory=dict[tuple[str, int], repository.Patched]
    )
    """What came of each way to take a part out, by part and number of the way."""
    runs: dict[str, repository.CommandEnded] = field(default_factory=dict[str, repository.CommandEnded])
    """Every run of the command by its key, in the order in which they ended."""
    settled: repository.AblationsSettled | None = None
    designed: repository.QuestionDesigned | None = None
    tries: dict[int, repository.QuestionRun] = field(default_factory=dict[int, repository.QuestionRun])
    """Of an experiment that answers a question, by number; 0: the repository as it is."""
    answered: repository.QuestionAnswered | None = None


class CellRuns(dict[str, tuple[str, CellRun]]):
    """Every execution of a cell by its id, in order, with the node that it was for: those of a node or of a key are
    found without a look at the others."""

    def __init__(self) -> None:
        super().__init__()
        self._of_node: dict[str, dict[str, CellRun]] = {}
        self._listed: dict[str, tuple[CellRun, ...]] = {}
        self._of_key: dict[str, tuple[str, ...]] = {}
        self.repeated: dict[str, None] = {}
        """The keys that were executed more than once."""
        self.leaving: dict[str, None] = {}
        """The executions that failed or left artifacts: what may be deleted one day is theirs."""

    def __setitem__(self, name: str, found: tuple[str, CellRun]) -> None:
        node, run = found
        known = self._of_key.get(run.key, ())
        if name not in known:
            self._of_key[run.key] = (*known, name)
            if known:
                self.repeated[run.key] = None
        if run.artifacts or run.failure is not None:
            self.leaving[name] = None
        else:
            self.leaving.pop(name, None)
        super().__setitem__(name, found)
        self._of_node.setdefault(node, {})[name] = run
        self._listed.pop(node, None)

    def of_node(self, node: str) -> tuple[CellRun, ...]:
        """The executions that were for a node, in order; the very same tuple until there is another one."""
        if node not in self._listed:
            self._listed[node] = tuple(self._of_node.get(node, {}).values())
        return self._listed[node]

    def of_key(self, key: str) -> tuple[tuple[str, CellRun], ...]:
        """The executions under a key, in order, each with its node."""
        return tuple(self[name] for name in self._of_key.get(key, ()))


@dataclass(frozen=True)
class StandingPaper:
    """The paper that a run has: the one that was released last, else the latest draft, as it was judged."""

    version: int
    released: papers.Released
    assessed: papers.Assessed | None = None


@dataclass
class Facts:
    """What is folded. Read it as `record.fold.state.RunState`, which is these fields with what follows from them."""

    started: running.Started | None = None
    started_at: float = 0.0
    last_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before a process took the run up again."""
    events: int = 0
    data_plan: DataPlan | None = None
    amendments: list[searching.Amended] = field(default_factory=list[searching.Amended])
    locks: list[tuple[int, searching.Locked]] = field(default_factory=list[tuple[int, searching.Locked]])
    """What was locked to be confirmed, each with the last decision before it."""
    protocol: searching.ProtocolReviewed | None = None
    """What a second reader said of the plan; None before, and in runs of older versions."""
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[Scorer, ...] = ()
    installed: Installed | None = None
    """Packages that were installed for the run."""
    hub: tuple[OnHub, ...] = ()
    """What the plan took of the hub."""
    decisions: dict[int, searching.Decided] = field(default_factory=dict[int, searching.Decided])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    step_since: dict[str, float] = field(default_factory=dict[str, float])
    """When each node went over to the step that it is in, in seconds since the epoch."""
    owed: dict[str, searching.CellsOwed] = field(default_factory=dict[str, searching.CellsOwed])
    """What each node of cells has to measure."""
    cells: CellRuns = field(default_factory=CellRuns)
    seconds_looked: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> seconds of computing of what was selected by (`record.nouns.nodes.LOOKS`), before the last stage."""
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict[tuple[str, int], Trial])
    """Every setting that was decided on for an arm, by its number."""
    extended: dict[str, Extend] = field(default_factory=dict[str, Extend])
    """Dimensions of the space that were widened, by name."""
    finished: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons answered, waits, ends, and finished work."""
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    answers: dict[CallKey, running.Answered] = field(default_factory=dict[CallKey, running.Answered])
    superseded: list[running.Answered] = field(default_factory=list[running.Answered])
    """Answers to questions that had changed when they came up again; those that took their place are in `answers`."""
    drifted: dict[CallKey, running.Drifted] = field(default_factory=dict[CallKey, running.Drifted])
    unanswered: dict[CallKey, running.Unanswered] = field(default_factory=dict[CallKey, running.Unanswered])
    terms: dict[int, Terms] = field(default_factory=dict[int, Terms])
    usage: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    calls: Counter[int] = field(default_factory=Counter[int])
    """Model calls by decision."""
    compared: dict[tuple[str, str], searching.Compared] = field(
        default_factory=dict[tuple[str, str], searching.Compared]
    )
    """Answered comparisons by pair, the node that was decided on earlier first."""
    tests: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled: dict[str, OverExamples] = field(default_factory=dict[str, OverExamples])
    """What resampling the test examples says of differences, by their key."""
    unscored: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """Why a scorer of the user's own gave no test values of a node."""
    internal_faults: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Fault of ours (`Failure.ours`) -> nodes that met it; those of one that ended the run count no more."""
    probes: list[searching.Probed] = field(default_factory=list[searching.Probed])
    readings: list[searching.CodeRead] = field(default_factory=list[searching.CodeRead])
    """Of the code behind the paper, by a second role."""
    planned: searching.AblationsPlanned | None = None
    """The ablations of the last stage; None before they are planned, and where nobody planned any."""
    missed: searching.AblationsMissed | None = None
    """What a reviewer of the draft would ask for; None before that was asked, and where it was not."""
    library: papers.LibraryChecked | None = None
    """What of the given library may be cited; None without one."""
    works_found: list[papers.WorksFound] = field(default_factory=list[papers.WorksFound])
    works_chosen: list[papers.WorksChosen] = field(default_factory=list[papers.WorksChosen])
    """What was gathered for the draft, over all writings of the paper."""
    figures: papers.FiguresMade | None = None
    drafts: list[papers.Drafted] = field(default_factory=list[papers.Drafted])
    figures_seen: dict[int, papers.FiguresSeen] = field(default_factory=dict[int, papers.FiguresSeen])
    scoped: dict[int, papers.Scoped] = field(default_factory=dict[int, papers.Scoped])
    released: papers.Released | None = None
    assessed: papers.Assessed | None = None
    """Of the writing that goes on, or went on last."""
    standing: StandingPaper | None = None
    context: papers.ContextRead | None = None
    """What the person's own documents say; None before they are read, and where none were given."""
    prior_work: papers.PriorWorkRead | None = None
    """What the closest papers used. Page one says "prior work unread" where this is None or `unread`."""
    code: CodeState = field(default_factory=CodeState)
    """The repository that the record is of; empty where it is of none."""
    ideating: papers.Ideating | None = None
    """The topic of an ideation; None in a run."""
    looked_up: dict[tuple[int, int], papers.LookedUp] = field(default_factory=dict[tuple[int, int], papers.LookedUp])
    conceived: dict[int, papers.Conceived] = field(default_factory=dict[int, papers.Conceived])
    version: int = 1
    """Which writing of the paper drafts, release and judgement are of."""
    template: str = ""
    """sha256 of the run's copy of the template that drafts and release are set with."""
    ancestry: list[Ancestor] = field(default_factory=list[Ancestor])
    """Where this run branched off, the first ancestor first. Costs and times of the state are this run's own."""
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings that were given when the run was taken up again, by dotted key; later ones win."""
    models: tuple[str, ...] = ()
    isolations: tuple[str, ...] = ()
    """How code ran, in the process that started the run and in those that took it up (`Started.isolation`)."""
    machines: tuple[Machine, ...] = ()
    """Where it ran, in the same processes."""
    rate: Rate | None = None
    """How fast experiments run, on the terms on which the run goes on; None where nobody measured it."""
    steered: list[Steered] = field(default_factory=list[Steered])
    killed: dict[str, running.Commanded] = field(default_factory=dict[str, running.Commanded])
    """Nodes that a person wants ended, finished or not."""
    stopping: bool = False
    held: running.Commanded | None = None
    """The request by which nothing new is begun; None while there is none. No active seconds pass meanwhile."""
    unheeded: int = 0
    collected: dict[str, str] = field(default_factory=dict[str, str])
    """Folder of checkpoints or artifacts that went -> the setting `keep` by which it did."""
    freed: int = 0
    """Bytes that were freed in this run with it."""
    subjects: tuple[SubjectUse, ...] = ()
    campaign: running.InCampaign | None = None
    """What experiments asked language models, up to the last step outside the search."""
    limited: str | None = None
    outage: running.Paused | None = None
    """Why no model is asked, and until when; None while they are."""
    ended: running.Ended | None = None
    without: frozenset[NodeKind] = frozenset()
    settled: dict[int, Spending] = field(default_factory=dict[int, Spending])
    """What the answers and attempts of each decision took."""
    lost: dict[int, Spending] = field(default_factory=dict[int, Spending])
    """What was set aside for calls and attempts of a decision that a kill cut off, or that failed with an open bill."""
    reserved: dict[str, running.Reserved] = field(default_factory=dict[str, running.Reserved])
    """What is set aside for calls and attempts under way, by `Reserved.name`."""
