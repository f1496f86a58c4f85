"""What prompts are told of a whole stage: of bounded size, however many nodes the stage has.

Ordered by coverage and gain as `search` orders nodes, but without marks, costs and comparisons: those may change after
a decision, and its prompt must not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from labwright.models.cutting import oneline
from labwright.models.roles.coding import NodeLine, OmittedNodes
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import SEARCH_KINDS, BranchStep, ErrorClass, Node
from labwright.search.score import coverage, gain, measured
from labwright.search.tree import View

BEST = 4
"""Lines for the nodes that measured best."""
LINES = 10
"""Lines in all; those that the best leave are for the latest nodes."""
OUTCOME = 160
"""Characters of an outcome."""
MESSAGE = 100
"""Characters of an error message."""
VARIES = 80
"""Characters of what a node varies."""

_UNTRIED = ("no answer", "nothing left")
"""Failures of nodes that tried nothing."""
NAMES = 400
"""Characters of all names of what was tried by nodes without a line."""


def memory(view: View, action: Expand) -> tuple[tuple[NodeLine, ...], OmittedNodes | None]:
    """The stage's finished search nodes but the parent: some in a line each, in order, and the rest in counts.

    Before the last stage, what earlier stages made of the same parent is among them: its verdict may suggest what one
    of these has tried. Lines are for the few that measured best (ablations are no contest) and for the latest.
    """
    known = [
        node
        for node in view.nodes.values()
        if node.kind in SEARCH_KINDS
        and node.finished
        and node.id != action.parent
        and (
            node.stage == view.stage
            or (view.stage != "ablation" and action.parent is not None and node.parent == action.parent)
        )
    ]
    chosen = [node for node in known if node.failure is None or node.failure.kind not in _UNTRIED]
    if len(chosen) > LINES:
        panel, worked = view.panel, [node for node in chosen if node.status == "good" and view.stage != "ablation"]
        first = min(worked, key=lambda node: (-coverage(node, panel), node.decision), default=None)
        best = sorted(
            worked, key=lambda node: (-coverage(node, panel), -gain(node, first or node, panel), node.decision)
        )[:BEST]
        named = {node.id for node in best}
        others = [node for node in chosen if node.id not in named]
        chosen = sorted((*best, *others[len(best) - LINES :]), key=lambda node: node.decision)
    shown = {node.id for node in chosen}
    lines = tuple(
        NodeLine(
            id=node.id,
            kind=node.kind,
            varies=oneline(node.varies, VARIES),
            error=node.failure.kind if node.failure else None,
            outcome=oneline(node.failure.message, MESSAGE)
            if node.failure
            else means(node, view.plan, OUTCOME) or node.status,
        )
        for node in chosen
    )
    rest = [node for node in known if node.id not in shown]
    names = list(dict.fromkeys(oneline(node.varies, VARIES) for node in reversed(rest) if node.varies))
    fitting = _fitting(names, NAMES, between=2)
    failed: Counter[ErrorClass] = Counter(node.failure.kind for node in rest if node.failure)
    return lines, OmittedNodes(
        worked=sum(node.status == "good" for node in rest),
        failed=dict(failed.most_common()),
        tried=tuple(fitting),
        more=len(names) - len(fitting),
    ) if rest else None


def outcome(node: Node, plan: DataPlan) -> str:
    """What came of a node in a few words: the mean of its primary metric by dataset and arm, or its error."""
    if node.failure is not None:
        return f"{node.failure.kind}: {oneline(node.failure.message, MESSAGE)}"
    found = means(node, plan, 2 * OUTCOME)
    over = " (means over levels)" if plan.levels else ""
    return f"{plan.primary.name}{over}: {found}" if found else node.status


def means(node: Node, plan: DataPlan, limit: int) -> str:
    """`dataset arm mean, arm mean; dataset ...` of the primary metric, in the plan's order, then what it does not name.

    About `limit` characters; no number is cut, what does not fit is counted. A missing level is said.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for entry, value in measured(node, plan).items():
        groups.setdefault((entry.dataset, entry.arm), []).append(value)
    order = {
        (use.name, arm.name): i for i, (use, arm) in enumerate((use, arm) for use in plan.datasets for arm in plan.arms)
    }
    levels = max(1, len(plan.levels))
    found: list[str] = []
    before = ""
    for (dataset, arm), values in sorted(groups.items(), key=lambda group: order.get(group[0], len(order))):
        partly = f" ({len(values)} of {levels} levels)" if len(values) < levels else ""
        found.append(f"{', ' if dataset == before else f'; {dataset} '}{arm} {fmean(values):.4g}{partly}")
        before = dataset
    shown = _fitting(found, limit, between=0)
    left = f", and {len(found) - len(shown)} more means left out" if len(shown) < len(found) else ""
    return "".join(shown).removeprefix("; ") + left


def _fitting(texts: Sequence[str], limit: int, *, between: int) -> list[str]:
    """The first texts that have at most `limit` characters, so many between each two; the first one in any case."""
    fitting: list[str] = []
    for text in texts:
        limit -= len(text) + (between if fitting else 0)
        if fitting and limit < 0:
            break
        fitting.append(text)
    return fitting


ERROR = 120
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
    """A line for each node that failed or was ended: what it tried, how it failed, and which node fixed it."""
    nodes, lines = list(nodes), list[str]()
    works = [one for one in nodes if one.kind == "debug" and one.status == "good"]
    fixed = {one.parent: f"; fixed by {one.id}" for one in works} | {
        name: f"; fixed by {one.id}, for all children of {one.parent}" for one in works for name in one.mends
    }
    for one in nodes:
        if one.status in ("buggy", "pruned"):
            failure, varies = one.failure, " ".join(one.varies.split())[:ERROR] or "nothing in particular"
            why = f"{failure.kind}, {' '.join(failure.message.split())[:ERROR]}" if failure else one.status
            lines.append(f"{one.id} ({one.kind}, {varies}): {why}{fixed.get(one.id, '')}")
    return tuple(lines)
