"""What is being done about a node, and since when."""

from __future__ import annotations

from record.fold.state import RunState
from record.nouns.nodes import NodeStep


def enter(state: RunState, node: str, step: NodeStep, at: float) -> None:
    """Note that a node is in this step since then."""
    state.nodes[node] = state.nodes[node].model_copy(update={"step": step})
    state.step_since[node] = at


def interrupt(state: RunState, at: float) -> None:
    """Note that nobody works on the unfinished nodes any more: a process that takes them up begins where they were."""
    for node in [node for node in state.nodes.values() if not node.finished]:
        enter(state, node.id, "proposed", at)
