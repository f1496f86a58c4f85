"""State machine of a run (LangGraph): determines the next step from the record.

The graph has no state beyond the current phase and no checkpointer: the router derives the current phase from the
run's state, so resuming needs only the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypedDict

from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Phase

Step = Callable[[], Awaitable[bool]]
"""Completes a phase; returns False if a stop was requested in it."""

MAX_STEPS = 200


class GraphProgress(TypedDict):
    """`going` becomes False when a stop is requested."""

    going: bool


class StuckError(Exception):
    """Raised if a step reports completion but the record does not show it: an internal error."""


async def run_state_machine(steps: Mapping[Phase, Step], state: Callable[[], RunState]) -> bool:
    """Run all steps to the end; return True when done, False when a stop was requested."""
    # slow import, only needed when a run is working
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(GraphProgress)  # pyrefly: ignore  a NamedTuple works
    phases = tuple(steps)

    def route(progress: GraphProgress) -> str:
        phase = state().phase
        return END if phase == "done" or not progress["going"] else phase

    async def enter(phase: Phase, _: GraphProgress) -> GraphProgress:
        going = await steps[phase]()
        if going and state().phase == phase:
            raise StuckError(f"step {phase!r} ended without completing its phase")
        return {"going": going}

    for phase in phases:
        graph.add_node(phase, partial(enter, phase))
    for origin in (START, *phases):
        graph.add_conditional_edges(origin, route, [*phases, END])
    progress = await graph.compile().ainvoke({"going": True}, {"recursion_limit": MAX_STEPS})
    return bool(progress["going"])
