"""What a run will still do, and what that may cost. Nothing is decided or written.

The next actions of the search come from its own policy, asked on copies of what it may see: each as if the ones before
it had started and no result had come in meanwhile. A result may change the later ones, and a limit of the stage on
model calls or time may refuse a node that is listed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from agent.forecast import forecast, usd_of_call
from agent.settings import Settings, SettingsError, override
from inspector.status import PHASE_TEXT, Ahead
from inspector.why import Outlook
from models.roles import ROLES
from record.events.searching import Decided
from record.fold.state import RunState
from record.nouns.decisions import Action, Compare, End, Expand, Seen, Wait, Work, summary_of
from record.nouns.nodes import PHASES, STAGES, Node, Phase, StageName, node_id
from search.policy import over, policy_of
from search.scheduler import ahead
from search.settings import SearchSettings
from search.tree import View, view_of

ACTIONS = 3
BEFORE_ABLATION: tuple[StageName, ...] = ("agenda", "tuning", "preliminary")
WRITE_UP = ("summary", "figures", "outline", "write", "reflect", "judge")
"""The roles that are still asked once nothing new is proposed."""


def outlook(state: RunState) -> Outlook:
    """What a run will do next, in words; of one without readable settings only what its phase says."""
    settings = _settings(state)
    if settings is None or state.data_plan is None or state.stage is None:
        return Outlook(best=_best(state, None), actions=_phases(state), idle=_outside(state),
                       workers=settings.search.num_workers if settings else 1)
    search, stage = settings.search, state.stage
    view = view_of(state, stage, Seen(through=state.last_decision), settings=search)
    ended = state.stages[stage].settled or state.end_of(stage) is not None
    actions = _phases(state) if ended else _once_a_slot_is_free(state, search, stage)
    return Outlook(best=_best(state, view), idle=_idle(state, actions), actions=actions, workers=search.num_workers)


def _settings(state: RunState) -> Settings | None:
    if state.started is None:
        return None
    try:
        return override(state.started.settings, state.overrides)
    except SettingsError:  # a run of another version: what is left is still worth showing
        return None


def _best(state: RunState, view: View | None) -> str | None:
    """The node that was carried forward last; in a first stage that is not settled, the best so far."""
    settled = next((best for name in BEFORE_ABLATION if (best := state.stages[name].best) is not None), None)
    return settled or (view.best.id if view is not None and view.best is not None else None)


# --- inside a stage -------------------------------------------------------------------------------------------------


def _once_a_slot_is_free(state: RunState, search: SearchSettings, stage: StageName) -> tuple[str, ...]:
    """The next actions; the first one says what it waits for while enough nodes are being written and run."""
    actions = _actions(state, search, stage)
    placed = [node for node in state.nodes.values() if not node.finished and node.kind != "aggregate"
              and (not node.attempts or node.attempts[-1].failure is not None)]
    room = search.num_workers + ahead(state, stage, [node.decision for node in placed], search)
    if len(placed) < room or not actions:
        return actions
    return (f"{actions[0]} (once the code of one of {', '.join(node.id for node in placed)} has run)", *actions[1:])


def _actions(state: RunState, search: SearchSettings, stage: StageName) -> tuple[str, ...]:
    """The next actions of the policy in a stage that is being searched, in words."""
    found: list[str] = []
    policy, started, ticket = policy_of(search), _Started(), search.order == "ticket"
    for k in range(state.last_decision + 1, state.last_decision + 1 + ACTIONS):
        through = max(0, k - search.effective_window)  # what decision k may use, as the scheduler has it
        seen = Seen(through=through) if ticket else Seen(also=tuple(sorted(state.finished)))
        late = [_name(decided) for number, decided in state.decisions.items()
                if ticket and number not in state.finished and number <= through]
        if late or (started.first is not None and started.first <= seen.through):
            found.append(f"decision {k} waits for the results up to decision {seen.through}"
                        + (f": {', '.join(late)}" if late else ", which come first"))
            break
        view = started.on(view_of(state, stage, seen, settings=search))
        action = policy.pick(view, Random(f"{state.seed_of(k)}/{k}"))
        found.append(_in_words(action, view))
        if isinstance(action, Wait | End):
            found += _after(action, over(view, search), state)
            break
        started.add(k, action)
    return tuple(found[:ACTIONS])


@dataclass
class _Started:
    """The actions that were found so far, as if they were under way."""

    first: int | None = None
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    asked: frozenset[tuple[str, str]] = frozenset()
    reports: dict[StageName, bool] = field(default_factory=dict[StageName, bool])

    def add(self, k: int, action: Action) -> None:
        self.first = k if self.first is None else self.first
        match action:
            case Expand():
                self.nodes[node_id(k)] = Node(
                    id=node_id(k), decision=k, parent=action.parent, stage=action.stage, kind=action.kind,
                    seed=action.seed, status="running")
            case Compare():
                self.asked |= {(action.a, action.b)}
            case _:
                self.reports |= {stage: False for stage in STAGES if summary_of(stage) == action}

    def on(self, view: View) -> View:
        return replace(view, nodes={**view.nodes, **self.nodes}, asked=view.asked | self.asked,
                       reports={**view.reports, **self.reports})


def _after(action: Action, reason: str | None, state: RunState) -> tuple[str, ...]:
    """What follows a wait or the end of a search."""
    then = _phases(state)[1:]
    if isinstance(action, End):
        report = (f" and report on the {action.stage} stage" if action.stage == STAGES[-1] else
                  "; its replicates and report follow during the next search")
        return (f"settle on the best node{report}", *then)
    goes_on = (f"then end the search: {reason}" if reason else
               "then what the result asks for: debugging, another draft, or growth from the best")
    return (goes_on, *(f"after the stage: {step}" for step in then[:1]))


def _name(decided: Decided) -> str:
    """An unfinished decision in a word: its node, or what is worked on."""
    action = decided.action
    if isinstance(action, Compare):
        return f"comparison of {action.a} and {action.b}"
    return action.task if isinstance(action, Work) else node_id(decided.k)


def _in_words(action: Action, view: View) -> str:
    match action:
        case Expand():
            origin = f" of {action.parent}" if action.parent else ""
            what = f", seed {action.seed}" if action.kind == "replicate" else ""
            item = f", for: {action.item[:100]}" if action.item else ""
            return f"{action.kind}{origin} in {action.stage}{what}{item}"
        case Compare():
            return f"ask which of {action.a} and {action.b} is sounder: measurements cannot tell them apart"
        case Work():
            return action.task
        case Wait():
            names = [*(node.id for node in view.in_flight), *(f"comparison of {a} and {b}" for a, b in view.asked),
                     *(f"report on {stage}" for stage, known in view.reports.items() if not known)]
            return f"wait for a result of {', '.join(names)}" if names else "wait"
        case End():
            return f"end the search of {view.stage}: {action.reason}"


def _idle(state: RunState, actions: tuple[str, ...]) -> str:
    """Why a slot is free while a stage is searched."""
    if state.stopping or state.paused:
        return "the run was asked to stop" if state.stopping else "the run is paused"
    writing = [node.id for node in state.nodes.values() if node.step == "writing"]
    if writing:
        return f"waits for code that is being written: {', '.join(writing)}"
    if actions and ("wait" in actions[0].split()[:1] or actions[0].startswith("decision ")):
        return f"nothing to run: {actions[0]}"
    return _outside(state) if state.stage and state.stages[state.stage].settled else "a node is about to be started"


# --- outside --------------------------------------------------------------------------------------------------------


def _phases(state: RunState) -> tuple[str, ...]:
    """The next steps of the state machine, the one that is due first."""
    if state.phase == "done":
        return ("nothing: the run is over",)
    ahead = PHASES[PHASES.index(state.phase): -1][:ACTIONS]
    return tuple(_step(state, phase) for phase in ahead)


def _step(state: RunState, phase: Phase) -> str:
    if phase in STAGES:
        settled = state.stages[phase].settled
        if settled:
            return f"report on the {phase} stage"
        ended = state.end_of(phase) is not None
        return f"settle on the best node of the {phase} stage" if ended else f"search the {phase} stage"
    return PHASE_TEXT.get(phase, phase)


def _outside(state: RunState) -> str:
    return "no experiments in this step: " + _step(state, state.phase)


# --- cost -----------------------------------------------------------------------------------------------------------


def ahead_of(state: RunState) -> Ahead | None:
    """What a run is likely to take from here to its end: the forecast for its settings, less what was done.

    None before the data plan, after the end, and where the settings cannot be read.
    """
    settings = _settings(state)
    if settings is None or state.data_plan is None or state.phase == "done":
        return None
    whole = forecast(state.data_plan, state.datasets, settings)
    searching = state.limited is None and state.stage is not None
    usages = (state.usage, *(one.usage for one in state.ancestry))  # calls before a branching count too
    calls, tokens, usd = 0, 0, 0.0
    for line in whole.calls:
        if not searching and line.role not in WRITE_UP:
            continue
        number = max(0, line.likely - sum(usage[line.role].calls for usage in usages if line.role in usage))
        models = settings.models.candidates(ROLES[line.role])
        cost = usd_of_call(line.role, settings.models)[0] if models else 0.0
        calls += number
        tokens += number * sum(ROLES[line.role].usual) if models and models[0].name != "offline" else 0
        usd = None if usd is None or cost is None else usd + number * cost
    used = sum(one.gpu_seconds for one in (*state.settled.values(), *(one.spent for one in state.ancestry)))
    hours = None if whole.gpu_hours is None else max(0.0, whole.gpu_hours.likely - used / 3600)
    return Ahead(calls=calls, tokens=tokens, usd=usd, gpu_hours=hours)
