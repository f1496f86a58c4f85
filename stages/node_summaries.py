"""What prompts are told of a whole stage: of bounded size, however many nodes the stage has.

Ordered by coverage and gain as `search` orders nodes, but without marks, costs and comparisons: those may change after
a decision, and its prompt must not.
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
from labwright.search.node_ranking import collect_values, compute_gain, count_coverage
from labwright.search.stage_snapshot import StageSnapshot

MAX_BEST_LINES = 4
"""Lines for the nodes that measured best."""
MAX_LINES = 10
"""Lines in all; those that the best leave are for the latest nodes."""
MAX_OUTCOME_CHARS = 160
"""Characters of an outcome."""
MAX_MESSAGE_CHARS = 100
"""Characters of an error message."""
MAX_VARIATION_CHARS = 80
"""Characters of what a node varies."""

_UNTRIED_FAILURES = ("no answer", "nothing left")
"""Failures of nodes that tried nothing."""
MAX_NAMES_CHARS = 400
"""Characters of all names of what was tried by nodes without a line."""


def summarise_nodes(view: StageSnapshot, action: ExpandTree) -> tuple[tuple[NodeLine, ...], OmittedNodes | None]:
    """The stage's finished search nodes but the parent: some in a line each, in order, and the rest in counts.

    Before the last stage, what earlier stages made of the same parent is among them: its verdict may suggest what one
    of these has tried. Lines are for the few that measured best (ablations are no contest) and for the latest.
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
    """What came of a node in a few words: the mean of its primary metric by dataset and arm, or its error."""
    if node.failure is not None:
        return f"{node.failure.kind}: {cut_line(node.failure.message, MAX_MESSAGE_CHARS)}"
    found = format_means(node, plan, 2 * MAX_OUTCOME_CHARS)
    over = " (means over levels)" if plan.levels else ""
    return f"{plan.primary_metric.name}{over}: {found}" if found else node.status


def format_means(node: Node, plan: DataPlan, limit: int) -> str:
    """`dataset arm mean, arm mean; dataset ...` of the primary metric, in the plan's order, then what it does not name.

    About `limit` characters; no number is cut, what does not fit is counted. A missing level is said.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for entry, value in collect_values(node, plan).items():
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
    shown = _take_fitting(found, limit, between=0)
    left = f", and {len(found) - len(shown)} more means left out" if len(shown) < len(found) else ""
    return "".join(shown).removeprefix("; ") + left


def _take_fitting(texts: Sequence[str], limit: int, *, between: int) -> list[str]:
    """The first texts that have at most `limit` characters, so many between each two; the first one in any case."""
    fitting: list[str] = []
    for text in texts:
        limit -= len(text) + (between if fitting else 0)
        if fitting and limit < 0:
            break
        fitting.append(text)
    return fitting


MAX_ERROR_CHARS = 120
"""Characters of an error that a line on a failure holds."""


def trace_branch(state: RunState, node: str | None) -> tuple[BranchStep, ...]:
    """The nodes from the first draft to this one, with what each changed and its plan."""
    steps: list[BranchStep] = []
    at = state.nodes.get(node or "")
    while at is not None:
        steps.append(BranchStep(node=at.id, stage=at.stage, kind=at.kind, varies=at.varies, plan=at.plan))
        at = state.nodes.get(at.parent or "")
    return tuple(reversed(steps))


def describe_failures(nodes: Iterable[Node]) -> tuple[str, ...]:
    """A line for each node that failed or was ended: what it tried, how it failed, and which node fixed it."""
    nodes, lines = list(nodes), list[str]()
    works = [one for one in nodes if one.kind == "debug" and one.status == "good"]
    fixed = {one.parent: f"; fixed by {one.id}" for one in works} | {
        name: f"; fixed by {one.id}, for all children of {one.parent}" for one in works for name in one.repairs_children
    }
    for one in nodes:
        if one.status in ("buggy", "pruned"):
            failure, varies = one.failure, " ".join(one.varies.split())[:MAX_ERROR_CHARS] or "nothing in particular"
            why = f"{failure.kind}, {' '.join(failure.message.split())[:MAX_ERROR_CHARS]}" if failure else one.status
            lines.append(f"{one.id} ({one.kind}, {varies}): {why}{fixed.get(one.id, '')}")
    return tuple(lines)
