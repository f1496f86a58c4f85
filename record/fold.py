"""The state of a run as the fold of its events: `RunState = fold(events)`.

Nothing else holds state. `apply` is total (any event after any prefix is accepted) and pure in its inputs, so that
reading a log twice, or a prefix of it, always gives the state that the writer had at that point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from record import events as ev
from record.machine import Machine
from record.nouns import (
    MISSING_ABLATIONS,
    STAGES,
    CallKey,
    Compare,
    DataPlan,
    DatasetFacts,
    End,
    Expand,
    Failure,
    Measurement,
    Node,
    NodeKind,
    OverExamples,
    Plotting,
    Scorer,
    Spending,
    StageName,
    StageSummary,
    Work,
)


@dataclass
class StageState:
    """What is known of one stage."""

    best: str | None = None
    reasons: tuple[str, ...] = ()
    ended: str | None = None
    summary: StageSummary | None = None
    settled: bool = False
    limited: str | None = None
    """The ceiling of this stage that was reached."""
    began: float | None = None
    """Active seconds of the run when the stage's first search node was decided on."""


@dataclass
class RoleUsage:
    """What the calls of one role took."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Steered:
    """What a person asked of a run, the last decision before it, and the stage that it is for."""

    after: int
    at: float
    stage: StageName | None
    command: ev.Commanded


MARKED = "marked by a person: "
"""How a reason to suspect a node begins that a person gave."""


@dataclass(frozen=True)
class Ancestor:
    """A run that this one, or one that it descends from, branched off, and what had been taken by then.

    Usage and seconds are what was taken since the branching before it, if there was one.
    """

    event: ev.Branched
    at: float
    decision: int
    """The last decision that was copied."""
    nodes: int
    usage: dict[str, RoleUsage]
    spent: Spending
    active_seconds: float
    seconds_of_code: float


@dataclass
class RunState:
    """A run as its log tells it so far."""

    started: ev.Started | None = None
    started_at: float = 0.0
    last_at: float = 0.0
    active_seconds: float = 0.0
    """Time between events, without the gaps before a process took the run up again."""
    events: int = 0
    data_plan: DataPlan | None = None
    datasets: tuple[DatasetFacts, ...] = ()
    scorers: tuple[Scorer, ...] = ()
    """Of the user's own, frozen for datasets of the plan."""
    decisions: dict[int, ev.Decided] = field(default_factory=dict[int, ev.Decided])
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    finished: set[int] = field(default_factory=set[int])
    """Decisions whose work is done: nodes judged, comparisons answered, waits, ends, and finished work."""
    stages: dict[StageName, StageState] = field(default_factory=lambda: {name: StageState() for name in STAGES})
    answers: dict[CallKey, ev.Answered] = field(default_factory=dict[CallKey, ev.Answered])
    usage: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    calls: Counter[int] = field(default_factory=Counter[int])
    """Model calls by decision."""
    compared: dict[tuple[str, str], ev.Compared] = field(default_factory=dict[tuple[str, str], ev.Compared])
    """Answered comparisons by pair, the node that was decided on earlier first."""
    tests: dict[str, tuple[Measurement, ...]] = field(default_factory=dict[str, tuple[Measurement, ...]])
    resampled: dict[str, OverExamples] = field(default_factory=dict[str, OverExamples])
    """What resampling the test examples says of differences, by their key; empty in older records."""
    unscored: dict[str, Failure] = field(default_factory=dict[str, Failure])
    """Why a scorer of the user's own gave no test values of a node."""
    probes: list[ev.Probed] = field(default_factory=list[ev.Probed])
    planned: ev.AblationsPlanned | None = None
    """The ablations of the last stage; None before they are planned, and where nobody planned any."""
    missed: ev.AblationsMissed | None = None
    """What a reviewer of the draft would ask for; None before that was asked, and where it was not."""
    library: ev.LibraryChecked | None = None
    """What of the given library may be cited; None without one, and in records older than it."""
    works_found: list[ev.WorksFound] = field(default_factory=list[ev.WorksFound])
    works_chosen: list[ev.WorksChosen] = field(default_factory=list[ev.WorksChosen])
    """What was gathered for the draft, over all writings of the paper."""
    figures: ev.FiguresMade | None = None
    drafts: list[ev.Drafted] = field(default_factory=list[ev.Drafted])
    figures_seen: dict[int, ev.FiguresSeen] = field(default_factory=dict[int, ev.FiguresSeen])
    """Looks at the figures in the PDF, by round of the draft."""
    released: ev.Released | None = None
    assessed: ev.Assessed | None = None
    context: ev.ContextRead | None = None
    """What the person's own documents say; None before they are read, and where none were given."""
    ideating: ev.Ideating | None = None
    """The topic of an ideation; None in a run."""
    looked_up: dict[tuple[int, int], ev.LookedUp] = field(default_factory=dict[tuple[int, int], ev.LookedUp])
    """Queries that were made, by decision and number."""
    conceived: dict[int, ev.Conceived] = field(default_factory=dict[int, ev.Conceived])
    """What came of each decision on an idea."""
    version: int = 1
    """Which writing of the paper drafts, release and judgement are of."""
    template: str = ""
    """sha256 of the run's copy of the template that drafts and release are set with; empty in older records."""
    ancestry: list[Ancestor] = field(default_factory=list[Ancestor])
    """Where this run branched off, the first ancestor first. Costs and times of the state are this run's own."""
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings that were given when the run was taken up again, by dotted key; later ones win."""
    models: tuple[str, ...] = ()
    """The models that the run was started and taken up with."""
    isolations: tuple[str, ...] = ()
    """How code ran, in the process that started the run and in those that took it up (`Started.isolation`)."""
    machines: tuple[Machine, ...] = ()
    """Where it ran, in the same processes; empty in records older than `Started.machine`."""
    steered: list[Steered] = field(default_factory=list[Steered])
    """What people asked of the run while it went on: every command that was taken, in order."""
    killed: dict[str, ev.Commanded] = field(default_factory=dict[str, ev.Commanded])
    """Nodes that a person wants ended, finished or not."""
    stopping: bool = False
    held: ev.Commanded | None = None
    """The request by which nothing new is begun; None while there is none. No active seconds pass meanwhile."""
    unheeded: int = 0
    """Files in `control/` that had no effect."""
    limited: str | None = None
    outage: ev.Paused | None = None
    """Why no model is asked, and until when; None while they are."""
    ended: ev.Ended | None = None
    without: frozenset[NodeKind] = frozenset()
    """Nodes after the search that are not begun any more, since the budget has no room for them."""
    settled: dict[int, Spending] = field(default_factory=dict[int, Spending])
    """What the answers and attempts of each decision took."""
    lost: dict[int, Spending] = field(default_factory=dict[int, Spending])
    """What was set aside for calls and attempts of a decision that a kill cut off, or that failed with an open bill."""
    reserved: dict[str, ev.Reserved] = field(default_factory=dict[str, ev.Reserved])
    """What is set aside for calls and attempts under way, by `Reserved.name`."""

    # --- queries ----------------------------------------------------------------------------------------------------

    @property
    def last_decision(self) -> int:
        """The highest decision number, 0 before the first."""
        return next(reversed(self.decisions), 0)

    def stage_nodes(self, stage: StageName) -> list[Node]:
        """The nodes of a stage in the order of their decisions."""
        return [node for node in self.nodes.values() if node.stage == stage]

    def node_of(self, k: int) -> Node | None:
        """The node that decision k made, if it made one."""
        return self.nodes.get(node_id(k))

    @property
    def paused(self) -> bool:
        """Whether a person holds the run."""
        return self.held is not None

    def seed_of(self, k: int) -> int:
        """The seed of choice k: the run's, or that of the branching before it."""
        assert self.started is not None
        return next((one.event.seed for one in reversed(self.ancestry) if one.decision < k), self.started.seed)

    def variation_of(self, k: int) -> int:
        """What sets choice k apart from the same choice of other branches; 0 where nothing is to."""
        assert self.started is not None
        seed = self.seed_of(k)
        return 0 if seed == self.started.seed else seed

    @property
    def human_nodes(self) -> list[Node]:
        """The nodes whose code a person wrote."""
        return [node for node in self.nodes.values() if node.author]

    @property
    def inherited(self) -> RoleUsage:
        """What model calls took before the run branched off; nothing in a run that did not."""
        return _total(one for ancestor in self.ancestry for one in ancestor.usage.values())

    @property
    def notes(self) -> list[Steered]:
        """Notes of the person who runs us."""
        return [one for one in self.steered if one.command.verb == "note"]

    def notes_for(self, k: int, stage: StageName) -> tuple[str, ...]:
        """The notes for a stage that came before decision k: what its prompts show, also when rendered again."""
        return tuple(one.command.text for one in self.notes if one.after < k and one.stage == stage)

    def marked_since(self, k: int) -> list[ev.Commanded]:
        """The marks that came after decision k was made: what it and its prompts know nothing of."""
        return [one.command for one in self.steered if one.command.verb == "mark" and one.after >= k]

    def end_of(self, stage: StageName) -> ev.Decided | None:
        """The decision that ended the search of a stage, if it was made."""
        return next((one for one in self.decisions.values()
                     if isinstance(one.action, End) and one.action.stage == stage), None)

    def work_done(self, task: str) -> bool:
        """Whether a step outside the search was decided on and is finished."""
        return any(k in self.finished for k, d in self.decisions.items() if d.action == Work(task=task))

    def paper_task(self, name: str) -> str:
        """A step of the paper by its name in this writing: each writing has decisions of its own."""
        return name if self.version == 1 else f"{name} v{self.version}"

    @property
    def stage(self) -> StageName | None:
        """The stage that is searched; then the last one, until every stage has its summary; None when all are over.

        What a settled stage still owes (replicates, their aggregate, its summary) is done beside the next search.
        """
        unsettled: list[StageName] = [name for name in STAGES if not self.stages[name].settled]
        unreported: list[StageName] = [name for name in STAGES if self.stages[name].summary is None]
        return next(iter(unsettled or unreported), None)

    @property
    def phase(self) -> str:
        """The step that the state machine enters next: what the router of `agent.graph` follows."""
        if self.data_plan is None:
            return "prepare"
        if self.stage is not None:
            return self.stage
        if not self.work_done("score tests"):
            return "score"
        if self.figures is None:
            return "figures"
        if not self.drafts:
            return "write"
        if not any(one.done for one in self.drafts):
            return "cite" if self._wants_citations else "reflect"
        if self.released is None:
            return "missing" if self._reviewed_for_ablations else "release"
        # Runs that ended before there was a judge are over: a resume does not begin to judge them.
        over = self.assessed is not None or (self.ended is not None and self.ended.exit_code in (0, 3, 4))
        return "done" if over else "judge"

    @property
    def _wants_citations(self) -> bool:
        """Whether works are still to be gathered for the first draft of this writing."""
        wanted = self.setting("literature.sources") and self.setting("paper.citation_rounds")
        return bool(wanted) and len(self.drafts) == 1 and self.limited is None and not self.work_done(
            self.paper_task("cite"))

    @property
    def _reviewed_for_ablations(self) -> bool:
        """Whether missing ablations are still to be asked for: once, for the first writing of the paper."""
        wanted = self.setting("paper.missing_ablations") or 0
        return wanted > 0 and self.version == 1 and not self.work_done(MISSING_ABLATIONS.task)

    @property
    def total(self) -> RoleUsage:
        """Usage over all roles."""
        return self.usage_without()

    def usage_without(self, *roles: str) -> RoleUsage:
        """Usage over all roles but these."""
        return _total(one for role, one in self.usage.items() if role not in roles)

    @property
    def spent(self) -> Spending:
        """What is paid for, and what is set aside for calls and attempts under way."""
        return sum((*self.settled.values(), *self.lost.values(), *(one.spending for one in self.reserved.values())),
                   start=Spending())

    @property
    def gpus(self) -> int:
        """GPUs of one experiment, as the run is set now; 0 on the CPU."""
        return int(self.setting("sandbox.gpus_per_node") or 1) if self.setting("sandbox.device") == "cuda" else 0

    def setting(self, key: str) -> Any:
        """A setting by its dotted key, as the run is set now; None where the record has none."""
        if key in self.overrides:
            return self.overrides[key]
        found: Any = self.started.settings if self.started is not None else {}
        for name in key.split("."):
            found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
        return found

    @property
    def seconds_a_program(self) -> float:
        """How long it took to write the code of a node, on average; 0.0 before the first."""
        code = self.usage.get("code")
        return code.seconds / code.calls if code is not None else 0.0

    @property
    def corrected(self) -> bool:
        """Whether verdicts are corrected for several comparisons: those of papers released before that are not."""
        return self.released is None or self.released.rules > 1

    @property
    def seconds_of_code(self) -> float:
        """Seconds that experiments ran, over all attempts of this run; not those before it branched off."""
        return _seconds_of_code(self) - sum(one.seconds_of_code for one in self.ancestry)


def node_id(k: int) -> str:
    """The id of the node that decision k makes."""
    return f"n{k:04d}"


def _total(found: Iterable[RoleUsage]) -> RoleUsage:
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


def _seconds_of_code(state: RunState) -> float:
    return sum(attempt.seconds for node in state.nodes.values() for attempt in node.attempts)


def apply(state: RunState, event: ev.Event, at: float = 0.0) -> None:
    """Fold one event into the state, in place."""
    state.events += 1
    if state.events > 1 and state.held is None and not isinstance(
            event, ev.Resumed | ev.Rewriting | ev.Branched):
        state.active_seconds += max(0.0, at - state.last_at)
    state.last_at = at
    match event:
        case ev.Started():
            state.started, state.started_at, state.models = event, at, (event.model,)
            state.template = event.template
            state.isolations = (event.isolation,)
            state.machines = (event.machine,) if event.machine is not None else ()
        case ev.Branched():
            _branched(state, event, at)
        case ev.Resumed():
            state.stopping = False
            state.held = state.ended = state.outage = None
            state.overrides |= event.settings
            _cut_off(state, list(state.reserved))
            if state.released is None:  # what a finished paper says of its origin no longer changes
                state.isolations = tuple(dict.fromkeys((*state.isolations, event.isolation)))
                if event.machine is not None and event.machine not in state.machines:
                    state.machines = (*state.machines, event.machine)
                state.limited, state.without = None, frozenset()
                state.template = event.template or state.template
                state.models = tuple(dict.fromkeys((*state.models, *(m for m in [event.model] if m))))
        case ev.Prepared():
            state.data_plan, state.datasets, state.scorers = event.data_plan, event.datasets, event.scorers
        case ev.Decided():
            _decided(state, event)
        case ev.Answered():
            _answered(state, event)
        case ev.Reserved():
            _cut_off(state, [event.name] if event.name in state.reserved else [])
            state.reserved[event.name] = event
        case ev.Returned():
            state.reserved.pop(event.name, None)
        case ev.Compared():
            state.compared[event.a, event.b] = event
            _finished(state, event.k)
        case ev.Settled():
            stage = state.stages[event.stage]
            stage.best, stage.reasons, stage.ended, stage.settled = event.best, event.reasons, event.ended, True
        case ev.Summarised():
            state.stages[event.summary.stage].summary = event.summary
        case ev.Suspected():
            _suspected(state, event)
        case ev.Probed():
            state.probes.append(event)
            _settle(state, f"{event.node}/{event.probe}", state.nodes[event.node].decision,
                    Spending(gpu_seconds=event.seconds * state.gpus))
        case ev.Unsealed():
            state.tests[event.node] = event.measurements
            if event.failure is not None:
                state.unscored[event.node] = event.failure
        case ev.AblationsPlanned():
            state.planned = event
        case ev.AblationsMissed():
            state.missed = event
        case ev.Resampled():
            state.resampled = {one.key: one for one in event.found}
        case ev.ContextRead():
            state.context = event
        case ev.Ideating():
            state.ideating = event
        case ev.LookedUp():
            state.looked_up[event.k, event.n] = event
        case ev.Conceived():
            state.conceived[event.k] = event
        case ev.WorkDone():
            _finished(state, event.k)
        case ev.LibraryChecked():
            state.library = event
        case ev.WorksFound():
            state.works_found.append(event)
        case ev.WorksChosen():
            state.works_chosen.append(event)
        case ev.FiguresMade():
            state.figures = event
        case ev.FiguresSeen():
            state.figures_seen[event.round] = event
        case ev.Drafted():
            state.drafts.append(event)
        case ev.Released():
            state.released = event
        case ev.Assessed():
            state.assessed = event
        case ev.Rewriting():
            state.version = event.version
            state.template = event.template or state.template
            state.drafts, state.released, state.assessed, state.ended = [], None, None, None
            state.figures_seen = {}
            state.overrides |= event.settings
            state.models = tuple(dict.fromkeys((*state.models, *(m for m in [event.model] if m))))
        case ev.Commanded():
            _commanded(state, event, at)
        case ev.Limited():
            if event.stage is None:
                state.limited = state.limited or event.reason
                state.without |= set(event.without)
            else:
                state.stages[event.stage].limited = event.reason
        case ev.Paused():
            state.outage = event
        case ev.Recovered():
            state.outage = None
        case ev.Ended():
            state.ended = event
        case ev.Unheeded():
            state.unheeded += event.number
        case ev.Proposed() | ev.Executed() | ev.Plotted() | ev.Reviewed() | ev.Judged():
            _node_event(state, event)


def fold(events: Iterable[tuple[ev.Event, float]]) -> RunState:
    """The state after all given events, each with its time."""
    state = RunState()
    for event, at in events:
        apply(state, event, at)
    return state


def _decided(state: RunState, event: ev.Decided) -> None:
    state.decisions[event.k] = event
    if isinstance(event.action, Expand):
        action = event.action
        state.nodes[node_id(event.k)] = Node(
            id=node_id(event.k), decision=event.k, parent=action.parent, stage=action.stage, kind=action.kind,
            seed=action.seed)
        stage = state.stages[action.stage]
        if stage.began is None:
            stage.began = state.active_seconds
    elif not isinstance(event.action, Work | Compare):
        state.finished.add(event.k)


def _answered(state: RunState, event: ev.Answered) -> None:
    state.answers[event.key] = event
    state.calls[event.key.decision] += 1
    role = state.usage.setdefault(event.key.role, RoleUsage())
    role.calls += 1
    role.input_tokens += event.usage.input_tokens
    role.output_tokens += event.usage.output_tokens
    role.usd += event.usage.usd or 0.0
    role.unpriced += event.usage.usd is None
    role.seconds += event.seconds
    _settle(state, str(event.key), event.key.decision, Spending(
        usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens))


def _settle(state: RunState, name: str, k: int, took: Spending) -> None:
    state.reserved.pop(name, None)
    state.settled[k] = state.settled.get(k, Spending()) + took


def _finished(state: RunState, k: int) -> None:
    state.finished.add(k)
    _cut_off(state, [name for name, one in state.reserved.items() if one.k == k])


def _cut_off(state: RunState, names: list[str]) -> None:
    """What was set aside for what did not come to its end stays spent."""
    for name in names:
        one = state.reserved.pop(name)
        state.lost[one.k] = state.lost.get(one.k, Spending()) + one.spending


def _commanded(state: RunState, event: ev.Commanded, at: float) -> None:
    named: StageName | None = next((name for name in STAGES if name == event.target), None)
    stage = named if event.verb == "note" and event.target else state.stage
    state.steered.append(Steered(state.last_decision, at, stage, event))
    if event.verb == "stop":
        state.stopping = True
    elif event.verb in ("pause", "resume"):
        state.held = event if event.verb == "pause" else None
    elif event.verb == "kill":
        state.killed[event.target] = event
    elif event.verb == "mark" and event.target in state.nodes:
        for name, change in marks_of(state, event).items():
            node = state.nodes[name]
            state.nodes[name] = node.model_copy(update={"closed": change} if event.mark == "closed" else {
                "suspect": (*node.suspect, change)})


def marks_of(state: RunState, mark: ev.Commanded) -> dict[str, str]:
    """The nodes that a mark is for, and what it says of each: what was ablated from a suspect node is suspect too."""
    if mark.mark == "closed":
        return {mark.target: mark.text}
    found = {mark.target: MARKED + mark.text}
    for node in state.nodes.values():  # parents come before their children
        if node.stage == "ablation" and node.parent in found:
            found[node.id] = f"{MARKED}as {mark.target}, which it rests on: {mark.text}"
    return found


def _branched(state: RunState, event: ev.Branched, at: float) -> None:
    """What was taken so far is another run's; requests, limits and outages of that run no longer hold."""
    state.ancestry.append(Ancestor(
        event=event, at=at, decision=state.last_decision, nodes=len(state.nodes), usage=state.usage, spent=state.spent,
        active_seconds=state.active_seconds, seconds_of_code=state.seconds_of_code))
    state.started_at, state.active_seconds = at, 0.0
    state.usage, state.settled, state.lost, state.reserved = {}, {}, {}, {}
    state.stopping, state.unheeded, state.without = False, 0, frozenset()
    state.held = state.ended = state.outage = state.limited = None
    for stage in state.stages.values():
        if not stage.settled:
            stage.began = stage.limited = None
    state.overrides |= event.settings
    state.template = event.template or state.template


def _suspected(state: RunState, event: ev.Suspected) -> None:
    node = state.nodes[event.node]
    reasons = tuple(str(one) for one in event.findings if one.suspect)
    state.nodes[node.id] = node.model_copy(update={
        "findings": (*node.findings, *event.findings), "suspect": (*node.suspect, *reasons)})


def _node_event(
    state: RunState, event: ev.Proposed | ev.Executed | ev.Plotted | ev.Reviewed | ev.Judged
) -> None:
    node = state.nodes[event.node]
    match event:
        case ev.Proposed():
            changes = event.model_dump(include={"title", "plan", "varies", "source_sha256", "setups", "author"})
            changes["status"] = "running"
        case ev.Executed():
            changes = {"attempts": (*node.attempts, event.attempt)}
            _settle(state, f"{node.id}/{event.attempt.number}", node.decision,
                    Spending(gpu_seconds=event.attempt.seconds * state.gpus))
        case ev.Plotted():
            plotting = Plotting(n=event.n, figures=event.figures, failure=event.failure, seconds=event.seconds)
            changes = {"plottings": (*node.plottings, plotting)}
        case ev.Reviewed():
            reviewed = node.plottings[-1].model_copy(update={"reviews": event.reviews, "looked": event.looked})
            changes = {"plottings": (*node.plottings[:-1], reviewed)}
        case ev.Judged():
            changes = {"status": event.status, "reasons": event.reasons, "failure": event.failure,
                       "verdict": event.verdict}
            _finished(state, node.decision)
    state.nodes[node.id] = node.model_copy(update=changes)
