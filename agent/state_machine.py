"""The state machine of a run, in LangGraph: which step follows which, read from the record.

The graph holds no state of its own beyond the phase it is in, and has no checkpointer: the router asks the fold which
phase comes next, from START as after every step. A resumed run therefore enters where it left off, and a step that was
cut short is entered again; steps are idempotent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypedDict

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import PHASES, Phase

Step = Callable[[], Awaitable[bool]]
"""Brings a phase to its end; False when the run was asked to stop in it."""

MAX_STEPS = 200


class GraphProgress(TypedDict):
    """`going` turns False when a run was asked to stop."""

    going: bool


class StuckError(Exception):
    """A step said that it was done, and the record does not show it: a fault of ours."""


async def run_state_machine(steps: Mapping[Phase, Step], state: Callable[[], RunState]) -> bool:
    """Drive a run to its end; True when it is done, False when it was asked to stop."""
    # takes longer to import than all the rest of the command line, and only a run at work needs it
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(GraphProgress)
    phases = PHASES[:-1]  # in `done` nothing is left to do

    def route(progress: GraphProgress) -> str:
        phase = state().phase
        return END if phase == "done" or not progress["going"] else phase

    async def enter(phase: Phase, _: GraphProgress) -> GraphProgress:
        going = await steps[phase]()
        if going and state().phase == phase:
            raise StuckError(f"step {phase!r} ended without being done")
        return {"going": going}

    for phase in phases:
        graph.add_node(phase, partial(enter, phase))
    for origin in (START, *phases):
        graph.add_conditional_edges(origin, route, [*phases, END])
    progress = await graph.compile().ainvoke({"going": True}, {"recursion_limit": MAX_STEPS})
    return bool(progress["going"])
