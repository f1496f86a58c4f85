"""What the search will do next, by asking its own policy on copies of what it may see. Nothing is decided or written.

Each action is asked for as if the ones before it had been begun and no result had come in meanwhile; a result may
change the later ones.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from agent.settings import Settings, SettingsError, override
from inspector.status import PHASES
from inspector.waiting import Outlook
from record.fold import RunState, node_id
from record.nouns import STAGES, Action, End, Expand, Node, Seen, StageName, Wait
from search.policy import BestFirst
from search.settings import SearchSettings
from search.tree import View, view_of

ACTIONS = 3
BEFORE_ABLATION: tuple[StageName, ...] = ("agenda", "tuning", "preliminary")
AFTER = ("prepare", *STAGES, "score", "figures", "write", "reflect", "release", "judge", "done")
"""The phases in their order (see `agent.graph`)."""


def outlook(state: RunState) -> Outlook:
    """What lies ahead of a run, in words; of one without readable settings only what its phase says."""
    settings = _settings(state)
    if settings is None or state.data_plan is None or state.stage is None:
        return Outlook(best=_best(state, None), actions=_phases(state), idle=_outside(state),
                       workers=settings.search.num_workers if settings else 1)
    search, stage = settings.search, state.stage
    view = view_of(state, stage, _all_seen(state), by_cost=search.order == "arrival")
    actions = _phases(state) if state.stages[stage].settled else _once_there_is_room(state, search, stage)
    return Outlook(best=_best(state, view), idle=_idle(state, actions), actions=actions, workers=search.num_workers,
                   replots=settings.paper.replots)


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
    placed = [node.id for node in state.nodes.values() if not node.finished and not node.attempts
              and node.kind != "aggregate"]
    if len(placed) < search.num_workers + search.lookahead or not actions:
        return actions
    return (f"{actions[0]} (once the code of one of {', '.join(placed)} has run)", *actions[1:])


def _actions(state: RunState, search: SearchSettings, stage: StageName) -> tuple[str, ...]:
    """The next actions of the policy in a stage that is being searched, in words."""
    said: list[str] = []
    begun: dict[str, Node] = {}
    for k in range(state.last_decision + 1, state.last_decision + 1 + ACTIONS):
        seen = _seen(state, search, k)
        late = [node.id for node in state.nodes.values()
                if search.order == "ticket" and not node.finished and node.decision <= seen.through]
        if late or any(node.decision <= seen.through for node in begun.values()):
            said.append(f"decision {k} waits for the results up to decision {seen.through}"
                        + (f": {', '.join(late)}" if late else ", which come first"))
            break
        view = view_of(state, stage, seen, by_cost=search.order == "arrival")
        view = replace(view, nodes={**view.nodes, **begun})
        action = BestFirst(search).pick(view, Random(f"{view.seed}/{k}"))
        said.append(_words(action, view))
        if not isinstance(action, Expand):
            said += _after(action, BestFirst(search).over(view), state)
            break
        begun[node_id(k)] = Node(id=node_id(k), decision=k, parent=action.parent, stage=action.stage, kind=action.kind,
                                 seed=action.seed, status="running")
    return tuple(said[:ACTIONS])


def _after(action: Action, over: str | None, state: RunState) -> tuple[str, ...]:
    """What follows a wait or the end of a search."""
    then = _phases(state)[1:]
    if isinstance(action, End):
        return (f"settle on the best node and summarise the {state.phase} stage", *then)
    goes_on = (f"then replicate the best and end the search: {over}" if over else
               "then what the result asks for: debugging, another draft, or growth from the best")
    return (goes_on, *(f"after the stage: {step}" for step in then[:1]))


def _words(action: Action, view: View) -> str:
    match action:
        case Expand():
            origin = f" of {action.parent}" if action.parent else ""
            what = f", seed {action.seed}" if action.kind == "replicate" else ""
            item = f", for: {action.item[:100]}" if action.item else ""
            return f"{action.kind}{origin} in {action.stage}{what}{item}"
        case Wait():
            names = ", ".join(node.id for node in view.in_flight)
            return f"wait for a result of {names}" if names else "wait"
        case End():
            return f"end the search of {view.stage}: {action.reason}"
        case _:
            return str(action.do)


def _idle(state: RunState, actions: tuple[str, ...]) -> str:
    """Why a place is free while a stage is searched."""
    if state.stopping or state.paused:
        return "the run was asked to stop" if state.stopping else "the run is paused"
    writing = [node.id for node in state.nodes.values() if not node.finished and not node.source_sha256]
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
    ahead = AFTER[AFTER.index(state.phase): -1][:ACTIONS]
    return tuple(_step(state, phase) for phase in ahead)


def _step(state: RunState, phase: str) -> str:
    if phase in STAGES:
        settled = state.stages[phase].settled
        return f"summarise the {phase} stage" if settled else f"search the {phase} stage"
    return PHASES.get(phase, phase)


def _outside(state: RunState) -> str:
    return "no experiments in this step: " + _step(state, state.phase)
