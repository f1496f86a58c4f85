"""How a stage came to its best node, and what failed on the way: from the record alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.roles import ClaimLine
from record.fold.state import RunState
from record.nouns.nodes import Node
from record.nouns.stages import BranchStep, StageSummary

MESSAGE = 120
"""Characters of an error that a line on a failure holds."""


def branch(state: RunState, node: str | None) -> tuple[BranchStep, ...]:
    """The nodes from the first draft to this one, with what each changed and its plan."""
    steps: list[BranchStep] = []
    at = state.nodes.get(node or "")
    while at is not None:
        steps.append(BranchStep(node=at.id, stage=at.stage, kind=at.kind, varies=at.varies, plan=at.plan))
        at = state.nodes.get(at.parent or "")
    return tuple(reversed(steps))


def failures(nodes: Iterable[Node]) -> tuple[str, ...]:
    """A line for each node that failed or was ended: what it tried, how it failed, and which node mended it."""
    nodes = list(nodes)
    mended = {one.parent: one.id for one in nodes if one.kind == "debug" and one.status == "good"}
    return tuple(_failure(one, mended.get(one.id)) for one in nodes if one.status in ("buggy", "pruned"))


def _failure(node: Node, mended: str | None) -> str:
    why = f"{node.failure.kind}, {' '.join(node.failure.message.split())[:MESSAGE]}" if node.failure else node.status
    return (f"{node.id} ({node.kind}, {' '.join(node.varies.split())[:MESSAGE] or 'nothing in particular'}): {why}"
            + (f"; mended by {mended}" if mended else ""))


def for_paper(summary: StageSummary, results: Sequence[ClaimLine]) -> StageSummary:
    """The report as a writer sees it: its keys are those of the paper for the same quantity, where there are such."""
    known = {line.key.rpartition(".")[0] for line in results}
    keys = (f"test/{key.removeprefix('validation/')}" if key.startswith("validation/") and key not in known else key
            for key in summary.numbers)
    return summary.model_copy(update={"numbers": tuple(key for key in dict.fromkeys(keys) if key in known)})
