"""The state of a study: what every kind has, with a slice for the work that only some kinds do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

from labwright.record.events import run_events, search_events
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import DecisionMade
from labwright.record.machine import ComputeRate, Machine
from labwright.record.reducers.call_state import CallState, RoleUsage
from labwright.record.reducers.ideation_state import IdeationState
from labwright.record.reducers.paper_state import PaperState
from labwright.record.reducers.repository_state import AblationState, QuestionState, RepositoryState
from labwright.record.reducers.search_state import SearchState
from labwright.record.schema.decisions import MISSING_ABLATIONS_TASK, Cost, EndStage, RunTask
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.nodes import PHASES, CellRun, GateName, Node, NodeKind, Phase, StageName, StudyKind


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
    command: run_events.CommandReceived


@dataclass(frozen=True)
class Gate:
    """A gate that the run has reached."""

    reached: run_events.GateReached
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

    branching: run_events.RunBranched
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


@dataclass
class RunState:
    """A study according to its log so far. Only `record.reducers` writes to it."""

    started: run_events.RunStarted | None = None
    started_at: float = 0.0
    last_event_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before the run was resumed."""
    event_count: int = 0
    decisions: dict[int, search_events.DecisionMade] = field(default_factory=dict[int, search_events.DecisionMade])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    step_since: dict[str, float] = field(default_factory=dict[str, float])
    """The time at which each node entered its current step, in seconds since the epoch."""
    required_cells: dict[str, search_events.CellsRequired] = field(
        default_factory=dict[str, search_events.CellsRequired]
    )
    """The cells that each node has to run."""
    cells: CellRunIndex = field(default_factory=CellRunIndex)
    finished_decisions: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons made, waits, stage ends, and finished tasks."""
    decision_contexts: dict[int, DecisionContext] = field(default_factory=dict[int, DecisionContext])
    internal_faults: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Internal error (`Failure.ours`) -> affected nodes; reset when the error ended the run."""
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
    gates: dict[GateName, Gate] = field(default_factory=dict[GateName, Gate])
    """The gates reached so far. No active seconds are counted while one waits."""
    recalled_studies: run_events.StudiesRecalled | None = None
    """Records of earlier studies that prompts show; None: no memory is used."""
    kept_study: run_events.StudyKept | None = None
    """The record of this study in the memory."""
    ignored_command_count: int = 0
    deleted_folders: dict[str, str] = field(default_factory=dict[str, str])
    """Deleted folder of checkpoints or artifacts -> the `keep` setting that applied."""
    freed_bytes: int = 0
    """Bytes freed by deletions in this run."""
    campaign: run_events.CampaignMembership | None = None
    limit_reason: str | None = None
    earlier_limits: tuple[str, ...] = ()
    """Limits that ended the work on versions of the paper that reviewers answered to."""
    outage: run_events.ProviderOutage | None = None
    """The current provider outage; None while models are available."""
    process_end: run_events.ProcessEnded | None = None
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
        return (
            self
            if terms is None
            else replace(
                self, limit_reason=terms.limit_reason, skipped_kinds=terms.skipped_kinds, isolations=terms.isolations
            )
        )

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
        return [
            one.command
            for one in self.user_commands
            if one.command.verb == "mark" and one.after_decision >= decision_id
        ]

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
        begun = (
            bool(self.paper.drafts) or self.paper.version == 1 or self.is_task_done(self.paper.format_task("figures"))
        )
        if self.paper.figures is None or not begun:  # the program's own figures are drawn again for a new version
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
        wanted = self.read_setting("literature.sources") and self.read_setting("paper.citation_rounds")
        begun = any(one.action == RunTask(task=self.paper.format_task("reflect")) for one in self.decisions.values())
        return (
            bool(wanted)
            and len(self.paper.drafts) == 1
            and self.limit_reason is None
            and not begun
            and not self.is_task_done(self.paper.format_task("cite"))
        )

    @property
    def gpus_per_experiment(self) -> int:
        """GPUs per experiment: the current setting, or more if an arm needs more; 0 on the CPU."""
        if self.read_setting("sandbox.device") != "cuda":
            return 0
        needed = (
            (arm.needs.gpus or 0 for arm in self.search.data_plan.arms) if self.search.data_plan is not None else ()
        )
        return max(int(self.read_setting("sandbox.gpus_per_node") or 1), *needed, 0)

    def read_setting(self, key: str) -> Any:
        """Return the current value of a setting by its dotted key; None if the record has none."""
        if key in self.overrides:
            return self.overrides[key]
        value: Any = self.started.settings if self.started is not None else {}
        for name in key.split("."):
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        return value

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
