"""What a run met with so far: the errors of its nodes by class, and its best against the baseline with the noise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from inspector.text import plain, plain_lines
from record.claims import Difference, differences, validation_claims
from record.fold.state import RunState
from record.nouns.data import arm_of, level_of
from record.nouns.frozen import Frozen
from record.nouns.measurements import Measurement
from record.nouns.nodes import ErrorClass, Node

TRACEBACK_LINES = 12
MOST_EXAMPLES = 5
_OWN = re.compile(r"(?:^|[ /\"])(?:experiment|plots|figures)\.py\b|Cell In\[")
"""A line of a traceback that names a frame of the experiment's own code."""


class ErrorCount(Frozen):
    """A class of errors. Of `count` nodes, debugging of `mended` led to one that works; `example` is the newest."""

    kind: ErrorClass
    count: int
    mended: int
    nodes: tuple[str, ...]
    message: str
    example: tuple[str, ...]


class Compared(Frozen):
    """Method minus baseline on validation, at one dataset and condition. `n` counts pairs of seeds.

    `called` is `unknown` below five pairs; with one seed alone `sd`, `low` and `high` are None.
    """

    metric: str
    dataset: str
    condition: str
    other: str
    difference: float
    sd: float | None
    low: float | None
    high: float | None
    n: int
    better: str
    called: str


DECLINED = "nothing left"
"""The end of a node whose author was free to say that nothing is worth trying: no error."""


# --- what failed ----------------------------------------------------------------------------------------------------


def errors_of(state: RunState) -> tuple[ErrorCount, ...]:
    """The classes of errors that nodes failed or were pruned with, the most frequent first, with one traceback each."""
    failed = [node for node in state.nodes.values() if node.failure is not None and node.failure.kind != DECLINED]
    counts = Counter[ErrorClass](node.failure.kind for node in failed if node.failure)
    return tuple(_count(state, kind, [n for n in failed if n.failure and n.failure.kind == kind])
                 for kind, _ in counts.most_common())


def _count(state: RunState, kind: ErrorClass, nodes: Sequence[Node]) -> ErrorCount:
    example = next((node for node in reversed(nodes) if node.failure and node.failure.traceback), nodes[-1])
    assert example.failure is not None
    return ErrorCount(
        kind=kind, count=len(nodes), mended=sum(_mended(state, node) for node in nodes),
        nodes=tuple(node.id for node in nodes[:MOST_EXAMPLES]), message=plain(example.failure.message)[:300],
        example=plain_lines(own_part(example.failure.traceback), TRACEBACK_LINES))


def own_part(traceback: str) -> str:
    """A traceback from the last frame of the experiment's own code on, without the libraries before the error."""
    lines = traceback.splitlines()
    own = [n for n, line in enumerate(lines) if _OWN.search(line)]
    if not own or len(lines) - own[-1] <= TRACEBACK_LINES:
        return traceback
    frame = lines[own[-1]: own[-1] + TRACEBACK_LINES - 3]
    end = next((n for n, line in enumerate(frame) if n and line.startswith("File ")), len(frame))
    return "\n".join((*frame[:end], "...", lines[-1]))


def _mended(state: RunState, node: Node) -> bool:
    """Whether debugging of the node, or of what debugging made of it, led to a node that works."""
    children = [one for one in state.nodes.values() if one.parent == node.id and one.kind == "debug"]
    return any(one.status == "good" or _mended(state, one) for one in children)


# --- what was found -------------------------------------------------------------------------------------------------


def comparisons_of(state: RunState, best: str | None) -> tuple[Compared, ...]:
    """Method minus baseline by dataset and condition, of the primary metric: over replicates, or else of one seed."""
    plan = state.data_plan
    if plan is None or best is None or best not in state.nodes:
        return ()
    roles = {arm.name: arm.role for arm in plan.arms}
    found = [_compared(one) for one in differences(state, validation_claims(state, best))
             if one.name == plan.primary.name and roles.get(arm_of(one.condition)) == "method"]
    return tuple(found) or _of_one_seed(state, state.nodes[best])


def _compared(one: Difference) -> Compared:
    return Compared(
        metric=one.name, dataset=one.dataset, condition=one.condition, other=one.other, difference=one.mean, sd=one.sd,
        low=one.low, high=one.high, n=one.n, better=one.better, called=one.called)


def _of_one_seed(state: RunState, node: Node) -> tuple[Compared, ...]:
    """What the searched seed alone says: no noise is known, so nothing is called."""
    plan = state.data_plan
    assert plan is not None
    roles = {arm.name: arm.role for arm in plan.arms}
    shown = [one for one in node.measurements if one.name == plan.primary.name and one.split == "validation"]
    return tuple(
        _single(a, b, higher=plan.primary.higher_is_better)
        for a in shown for b in shown
        if a.dataset == b.dataset and level_of(a.condition) == level_of(b.condition)
        and (roles.get(arm_of(a.condition)), roles.get(arm_of(b.condition))) == ("method", "baseline"))


def _single(a: Measurement, b: Measurement, *, higher: bool) -> Compared:
    gap = a.value - b.value
    return Compared(
        metric=a.name, dataset=a.dataset, condition=a.condition, other=b.condition, difference=gap, sd=None, low=None,
        high=None, n=1, better=a.condition if (gap > 0) == higher else b.condition, called="unknown")
