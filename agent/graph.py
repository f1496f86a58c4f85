"""The state machine of a run, in LangGraph: which step follows which, read from the record.

The graph holds no state of its own beyond the phase it is in, and has no checkpointer: the router asks the fold which
phase comes next, from START as after every step. A resumed run therefore enters where it left off, and a step that was
cut short is entered again; steps are idempotent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict

from record.fold.state import RunState
from record.nouns.nodes import PHASES, Phase

Step = Callable[[], Awaitable[bool]]
"""Brings a phase to its end; False when the run was asked to stop in it."""

MOST_STEPS = 200


class Position(TypedDict):
    """Where a run is. `going` turns False when it was asked to stop."""

    phase: Phase
    going: bool


class StuckError(Exception):
    """A step said that it was done, and the record does not show it: a fault of ours."""


async def run_graph(steps: Mapping[Phase, Step], state: Callable[[], RunState]) -> bool:
    """Drive a run to its end; True when it is done, False when it was asked to stop."""
    # takes longer to import than all the rest of the command line, and only a run at work needs it
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(Position)
    worked = PHASES[:-1]  # in `done` nothing is left to do
    targets = {phase: phase for phase in worked} | {END: END}

    def route(position: Position) -> str:
        phase = state().phase
        return END if phase == "done" or not position["going"] else phase

    def entering(phase: Phase) -> Callable[[Position], Awaitable[Position]]:
        async def enter(_: Position) -> Position:
            going = await steps[phase]()
            if going and state().phase == phase:
                raise StuckError(f"step {phase!r} ended without being done")
            return {"phase": phase, "going": going}

        return enter

    for phase in worked:
        graph.add_node(phase, entering(phase))
        graph.add_conditional_edges(phase, route, targets)
    graph.add_conditional_edges(START, route, targets)
    position = await graph.compile().ainvoke(
        {"phase": state().phase, "going": True}, {"recursion_limit": MOST_STEPS})
    return bool(position["going"])
