"""What is said with a node besides code and values: how it ran, what its figures lack, which ablations go with it."""

from __future__ import annotations

from collections.abc import Iterable

from models.roles import Ran, Sibling
from record.ablation import Ablation
from record.nouns.decisions import Expand
from record.nouns.figures import FigureReview
from record.nouns.nodes import Node
from search.tree import View
from stages.bench import Bench
from stages.memory.stage import means

WHOLE = 2000
"""Characters of an ablation's means, for a judge who reads two ablations together."""


def ran(node: Node) -> tuple[Ran, ...]:
    """How a node's code ran, attempt by attempt."""
    return tuple(Ran(
        number=one.number, seconds=one.seconds, limit=one.limit, alone=one.alone, resumed=one.resumed,
        ended=f"{one.failure.kind}: {one.failure.message}" if one.failure else "") for one in node.attempts)


def advice(reviews: Iterable[FigureReview]) -> tuple[str, ...]:
    """What reviewers would better in the figures that they accepted, `name: what`, a line a figure."""
    return tuple(f"{one.name}: {'; '.join(one.issues)}" for one in reviews if one.readable and one.issues)


def other_ablations(bench: Bench, action: Expand) -> tuple[Ablation, ...]:
    """The planned ablations beside the one that an action takes up."""
    if action.stage != "ablation" or bench.state.planned is None:
        return ()
    return tuple(one for one in bench.state.planned.ablations if one.item != action.item)


def ablations_beside(view: View, node: Node) -> tuple[Sibling, ...]:
    """The finished ablations that may have to be read together with one, as far as its decision may see them."""
    if view.stage != "ablation":
        return ()
    return tuple(Sibling(id=one.id, kind=one.kind, varies=one.varies, outcome=means(one, view.plan, WHOLE))
                 for one in view.good if one.id != node.id)


def is_covered(bench: Bench, action: Expand) -> bool:
    """Whether the data plan says that the compared arms answer an agenda item."""
    items = bench.idea.experiments
    return action.kind == "improve" and any(
        items[n - 1] == action.item for n in bench.plan.covered if 1 <= n <= len(items))
