"""Summaries of a whole stage for prompts, bounded in size regardless of the number of nodes.

Nodes are ordered by coverage and gain as in `search`, but without marks, costs and comparisons: these may change
after a decision, while its prompt must not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from labwright.models.prompt_filters import cut_line
from labwright.models.roles.experiment_code import NodeLine, OmittedNodes
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import SEARCH_KINDS, BranchStep, ErrorClass, Node
from labwright.search.stage_snapshot import StageSnapshot, collect_values, compute_gain, count_coverage

MAX_BEST_LINES = 4
"""Maximum number of lines for the best nodes."""
MAX_LINES = 10
"""Maximum number of lines in total; the latest nodes get the lines that the best nodes do not use."""
MAX_OUTCOME_CHARS = 160
"""Maximum number of characters of an outcome."""
MAX_MESSAGE_CHARS = 100
"""Maximum number of characters of an error message."""
MAX_VARIATION_CHARS = 80
"""Maximum number of characters of a node's variation."""

_UNTRIED_FAILURES = ("no answer", "nothing left")
"""Failures of nodes that ran no experiment."""
MAX_NAMES_CHARS = 400
"""Maximum total number of characters of the variations of nodes without a line."""


def summarise_nodes(view: StageSnapshot, action: ExpandTree) -> tuple[tuple[NodeLine, ...], OmittedNodes | None]:
    """Return one line each for some finished search nodes of the stage, and counts of the rest; the parent is excluded.

    Before the last stage, children of the same parent from earlier stages are included, since the parent's verdict may
    suggest a change that one of them has already tried. The few best nodes (except ablations, which do not compete) and
    the latest nodes get a line.
    """
    known = [
        node
        for node in view.nodes.values()
        if node.kind in SEARCH_KINDS
        and node.is_finished
        and node.id != action.parent
        and (
            node.stage == view.stage
            or (view.stage != "ablation" and action.parent is not None and node.parent == action.parent)
        )
    ]
    chosen = [node for node in known if node.failure is None or node.failure.kind not in _UNTRIED_FAILURES]
    if len(chosen) > MAX_LINES:
        panel, worked = view.panel, [node for node in chosen if node.status == "good" and view.stage != "ablation"]
        first = min(worked, key=lambda node: (-count_coverage(node, panel), node.decision), default=None)
        best = sorted(
            worked,
            key=lambda node: (-count_coverage(node, panel), -compute_gain(node, first or node, panel), node.decision),
        )[:MAX_BEST_LINES]
        named = {node.id for node in best}
        others = [node for node in chosen if node.id not in named]
        chosen = sorted((*best, *others[len(best) - MAX_LINES :]), key=lambda node: node.decision)
    shown = {node.id for node in chosen}
    lines = tuple(
        NodeLine(
            id=node.id,
            kind=node.kind,
            varies=cut_line(node.varies, MAX_VARIATION_CHARS),
            error=node.failure.kind if node.failure else None,
            outcome=cut_line(node.failure.message, MAX_MESSAGE_CHARS)
            if node.failure
            else format_means(node, view.plan, MAX_OUTCOME_CHARS) or node.status,
        )
        for node in chosen
    )
    rest = [node for node in known if node.id not in shown]
    names = list(dict.fromkeys(cut_line(node.varies, MAX_VARIATION_CHARS) for node in reversed(rest) if node.varies))
    fitting = _take_fitting(names, MAX_NAMES_CHARS, between=2)
    failed: Counter[ErrorClass] = Counter(node.failure.kind for node in rest if node.failure)
    return lines, OmittedNodes(
        worked=sum(node.status == "good" for node in rest),
        failed=dict(failed.most_common()),
        tried=tuple(fitting),
        more=len(names) - len(fitting),
    ) if rest else None


def describe_outcome(node: Node, plan: DataPlan) -> str:
    """Describe the outcome of a node: the mean of the primary metric by dataset and arm, or the error."""
    if node.failure is not None:
        return f"{node.failure.kind}: {cut_line(node.failure.message, MAX_MESSAGE_CHARS)}"
    means = format_means(node, plan, 2 * MAX_OUTCOME_CHARS)
    over = " (means over levels)" if plan.levels else ""
    return f"{plan.primary_metric.name}{over}: {means}" if means else node.status


def format_means(node: Node, plan: DataPlan, limit: int) -> str:
    """Return the means of the primary metric as `dataset arm mean, arm mean; dataset ...`, in the plan's order.

    The text has about `limit` characters; means that do not fit are counted, and missing levels are noted. Arms outside
    the plan come last.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for entry, value in collect_values(node, plan).items():
        groups.setdefault((entry.dataset, entry.arm), []).append(value)
    order = {
        (use.name, arm.name): i for i, (use, arm) in enumerate((use, arm) for use in plan.datasets for arm in plan.arms)
    }
    levels = max(1, len(plan.levels))
    parts: list[str] = []
    before = ""
    for (dataset, arm), values in sorted(groups.items(), key=lambda group: order.get(group[0], len(order))):
        partly = f" ({len(values)} of {levels} levels)" if len(values) < levels else ""
        parts.append(f"{', ' if dataset == before else f'; {dataset} '}{arm} {fmean(values):.4g}{partly}")
        before = dataset
    shown = _take_fitting(parts, limit, between=0)
    left = f", and {len(parts) - len(shown)} more means omitted" if len(shown) < len(parts) else ""
    return "".join(shown).removeprefix("; ") + left


def _take_fitting(texts: Sequence[str], limit: int, *, between: int) -> list[str]:
    """Return as many leading strings as fit in `limit` characters, with `between` characters between them, but at
    least one.
    """
    fitting: list[str] = []
    for text in texts:
        limit -= len(text) + (between if fitting else 0)
        if fitting and limit < 0:
            break
        fitting.append(text)
    return fitting


MAX_ERROR_CHARS = 120
"""Maximum number of characters of an error in a line about a failure."""


def trace_branch(state: RunState, node: str | None) -> tuple[BranchStep, ...]:
    """Return the path from the first draft to this node, with the change and plan of each step."""
    steps: list[BranchStep] = []
    at = state.nodes.get(node or "")
    while at is not None:
        steps.append(BranchStep(node=at.id, stage=at.stage, kind=at.kind, varies=at.varies, plan=at.plan))
        at = state.nodes.get(at.parent or "")
    return tuple(reversed(steps))


def describe_failures(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return one line per failed or pruned node, with its change, its error, and the node that fixed it."""
    nodes, lines = list(nodes), list[str]()
    fixes = [one for one in nodes if one.kind == "debug" and one.status == "good"]
    fixed = {one.parent: f"; fixed by {one.id}" for one in fixes} | {
        name: f"; fixed by {one.id}, for all children of {one.parent}" for one in fixes for name in one.repairs_children
    }
    for node in nodes:
        if node.status in ("buggy", "pruned"):
            failure, varies = node.failure, " ".join(node.varies.split())[:MAX_ERROR_CHARS] or "nothing in particular"
            why = f"{failure.kind}, {' '.join(failure.message.split())[:MAX_ERROR_CHARS]}" if failure else node.status
            lines.append(f"{node.id} ({node.kind}, {varies}): {why}{fixed.get(node.id, '')}")
    return tuple(lines)
