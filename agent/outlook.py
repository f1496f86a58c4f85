"""What the search will do next, by asking its own policy on copies of what it may see. Nothing is decided or written.

Each action is asked for as if the ones before it had been begun and no result had come in meanwhile; a result may
change the later ones. A limit of the stage on model calls or time may refuse a node that is told here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from agent.ahead import settings_of
from inspector.status import PHASE_TEXT
from inspector.why import Outlook
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


def outlook(state: RunState) -> Outlook:
    """What lies ahead of a run, in words; of one without readable settings only what its phase says."""
    settings = settings_of(state)
    if settings is None or state.data_plan is None or state.stage is None:
        return Outlook(best=_best(state, None), actions=_phases(state), idle=_outside(state),
                       workers=settings.search.num_workers if settings else 1)
    search, stage = settings.search, state.stage
    view = view_of(state, stage, _all_seen(state), settings=search)
    ended = state.stages[stage].settled or state.end_of(stage) is not None
    actions = _phases(state) if ended else _once_there_is_room(state, search, stage)
    return Outlook(best=_best(state, view), idle=_idle(state, actions), actions=actions, workers=search.num_workers)


def _best(state: RunState, view: View | None) -> str | None:
    """The node that was carried forward last; in a first stage that is not settled, the best so far."""
    settled = next((best for name in BEFORE_ABLATION if (best := state.stages[name].best) is not None), None)
    return settled or (view.best.id if view is not None and view.best is not None else None)


# --- inside a stage -------------------------------------------------------------------------------------------------


def _all_seen(state: RunState) -> Seen:
    return Seen(through=state.last_decision)


def _seen(state: RunState, search: SearchSettings, k: int) -> Seen:
    """What decision k may use, as the scheduler has it."""
    if search.order == "ticket":
        return Seen(through=max(0, k - search.effective_window))
    return Seen(also=tuple(sorted(state.finished)))


def _once_there_is_room(state: RunState, search: SearchSettings, stage: StageName) -> tuple[str, ...]:
    """The next actions; the first one says what it waits for while nodes enough are being written and run."""
    actions = _actions(state, search, stage)
    placed = [node for node in state.nodes.values() if not node.finished and node.kind != "aggregate"
              and (not node.attempts or node.attempts[-1].failure is not None)]
    room = search.num_workers + ahead(state, stage, [node.decision for node in placed], search)
    if len(placed) < room or not actions:
        return actions
    return (f"{actions[0]} (once the code of one of {', '.join(node.id for node in placed)} has run)", *actions[1:])


def _actions(state: RunState, search: SearchSettings, stage: StageName) -> tuple[str, ...]:
    """The next actions of the policy in a stage that is being searched, in words."""
    said: list[str] = []
    policy, begun = policy_of(search), _Begun()
    for k in range(state.last_decision + 1, state.last_decision + 1 + ACTIONS):
        seen = _seen(state, search, k)
        late = [_name(decided) for number, decided in state.decisions.items()
                if search.order == "ticket" and number not in state.finished and number <= seen.through]
        if late or (begun.first is not None and begun.first <= seen.through):
            said.append(f"decision {k} waits for the results up to decision {seen.through}"
                        + (f": {', '.join(late)}" if late else ", which come first"))
            break
        view = begun.on(view_of(state, stage, seen, settings=search))
        action = policy.pick(view, Random(f"{state.seed_of(k)}/{k}"))
        said.append(_words(action, view))
        if isinstance(action, Wait | End):
            said += _after(action, over(view, search), state)
            break
        begun.add(k, action)
    return tuple(said[:ACTIONS])


@dataclass
class _Begun:
    """The actions that were told so far, as if they were under way."""

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
        last = action.stage == STAGES[-1]
        return ("settle on the best node" + (f" and report on the {action.stage} stage" if last else
                                             "; its replicates and report are made beside the next search"), *then)
    goes_on = (f"then end the search: {reason}" if reason else
               "then what the result asks for: debugging, another draft, or growth from the best")
    return (goes_on, *(f"after the stage: {step}" for step in then[:1]))


def _name(decided: Decided) -> str:
    """An unfinished decision in a word: its node, or what is worked on."""
    action = decided.action
    if isinstance(action, Compare):
        return f"comparison of {action.a} and {action.b}"
    return action.task if isinstance(action, Work) else node_id(decided.k)


def _words(action: Action, view: View) -> str:
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
    """Why a place is free while a stage is searched."""
    if state.stopping or state.paused:
        return "the run was asked to stop" if state.stopping else "the run is paused"
    writing = [node.id for node in state.nodes.values() if node.step == "writing"]
    if writing:
        return f"waits for code that is being written: {', '.join(writing)}"
    if actions and ("wait" in actions[0].split()[:1] or actions[0].startswith("decision ")):
        return f"nothing to run: {actions[0]}"
    return _outside(state) if state.stage and state.stages[state.stage].settled else "a node is about to be begun"


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
