"""The tree of a run as rows, and its branch points: a pure function of the state, used by every view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from labwright.inspector.safe_text import format_count, format_dollars, format_duration, shorten, to_plain
from labwright.record.cell_status import CellCounts, compute_node_cells, count_cells
from labwright.record.claims.estimates import compute_node_score, find_winner, nodes_ignoring_seed
from labwright.record.claims.setting_controls import TuningReport, build_tuning_report
from labwright.record.reducers.run_state import RunState, sum_usage
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import (
    KIND_NAMES,
    SEARCH_KINDS,
    STAGES,
    STUDY_STAGES,
    Node,
    NodeKind,
    NodeStatus,
    StageName,
    describe_limit_change,
    iterate_retries,
)
from labwright.record.table import format_quantity

NODE_FIELDS = tuple("id parent stage kind status decision seed title suspect closed author".split())
"""Fields of a row that are those of its node."""


class NodeRow(FrozenModel):
    """One node. `depth` counts from the stage's root; `RunTree.metric` describes `metric`.

    `why` is the failure message; `again` describes the changed limits of a second attempt; `seedless` is true if
    replicates gave the same values for every seed; `closed` is the user's reason for closing it; `author` wrote its
    code; `cells` is None for code that measures all conditions at once.
    """

    id: str
    parent: str | None
    depth: int
    stage: StageName
    kind: NodeKind
    status: NodeStatus
    decision: int
    seed: int
    title: str
    varies: str
    metric: float | None
    attempts: int
    plots: int
    seconds: float
    failure: str | None
    why: str
    again: str
    seedless: bool
    best: bool
    on_best_path: bool
    suspect: tuple[str, ...]
    closed: str = ""
    author: str = ""
    cells: CellCounts | None = None


class StageFacts(FrozenModel):
    """State of a stage. `limited` is the limit that was reached; `pending` is the remaining work of a finished
    stage during the search of the next stage.
    """

    stage: StageName
    node_limit: int | None
    best: str | None
    ended: str | None
    limited: str | None
    pending: tuple[str, ...]


class StageRows(StageFacts):
    """One stage with its nodes in tree order."""

    nodes: tuple[NodeRow, ...]

    @property
    def searched_count(self) -> int:
        """Number of finished nodes that count towards the limit."""
        return sum(row.kind in SEARCH_KINDS and row.status not in ("proposed", "running") for row in self.nodes)


class TreeMetric(FrozenModel):
    """Definition of the column `metric`: the primary metric on one dataset's validation split, averaged over the
    method's conditions."""

    name: str
    title: str
    unit: str = ""
    higher_is_better: bool
    dataset: str = ""


class BranchPoint(FrozenModel):
    """A run from which this run branched. Its costs do not count towards this run's limits."""

    run: str
    point: str
    decisions: int
    nodes: int
    seed: int
    by: str
    note: str
    calls: int
    tokens: int
    usd: float
    unpriced: int
    seconds: float
    code_seconds: float


class RunTree(FrozenModel):
    """The whole tree. `winner` is the node that the paper reports, if known; `tuning` has every trial, or is None if
    nothing is tuned."""

    metric: TreeMetric | None
    winner: str | None
    tuning: TuningReport | None = None
    stages: tuple[StageRows, ...]
    ancestry: tuple[BranchPoint, ...] = ()

    @property
    def rows(self) -> list[NodeRow]:
        """The nodes of all stages in order of decisions."""
        return sorted((row for stage in self.stages for row in stage.nodes), key=lambda row: row.decision)

    @property
    def best(self) -> str | None:
        """The node that the paper reports, else the best node of the last stage that has one."""
        return self.winner or next((stage.best for stage in reversed(self.stages) if stage.best), None)


def build_tree(state: RunState) -> RunTree:
    """Build the tree of a run, including stages without nodes."""
    command = state.repository.repaired_command if state.kind == "ablation" else None
    path, plan, same = set[str](), state.search.data_plan, frozenset(nodes_ignoring_seed(state))
    at, account = find_winner(state), build_tuning_report(state)
    while at is not None and at in state.nodes and at not in path:
        path.add(at)
        at = state.nodes[at].parent

    def row(node: Node, depth: int) -> NodeRow:
        failure = node.failure or (node.attempts[-1].failure if node.attempts else None)
        return NodeRow(
            **{name: getattr(node, name) for name in NODE_FIELDS},
            depth=depth,
            metric=compute_node_score(node, plan) if command is None else _find_value(node, command.metric_name),
            varies=format_trials(account, node.id) if node.kind == "trial" and account is not None else node.varies,
            attempts=len(node.attempts),
            plots=node.plot_count,
            seconds=sum(attempt.seconds for attempt in node.attempts),
            failure=failure.name if failure else None,
            why=failure.message if failure else "",
            again="; ".join(describe_limit_change(*pair) for pair in iterate_retries(node)),
            seedless=node.id in same,
            best=node.id == state.search.stages[node.stage].best,
            on_best_path=node.id in path,
            cells=count_cells(compute_node_cells(state, node.id)),
        )

    metric = None
    if plan is not None:
        known = plan.primary_metric.model_dump(include={"name", "unit", "higher_is_better"})
        title = plan.primary_metric.title or plan.primary_metric.name
        metric = TreeMetric(**known, title=title, dataset=plan.datasets[0].name)
    elif command is not None:
        name = command.metric_name
        metric = TreeMetric(name=name, title=name, higher_is_better=command.direction == "max")
    return RunTree(
        metric=metric,
        winner=find_winner(state),
        tuning=account,
        ancestry=list_branch_points(state),
        stages=tuple(
            StageRows(
                **stage_fields(state, name), nodes=tuple(row(node, depth) for node, depth in _walk_stage(state, name))
            )
            for name in STUDY_STAGES[state.kind]
        ),
    )


def _find_value(node: Node, metric: str) -> float | None:
    return next((one.value for one in node.measurements if one.name == metric), None)


def find_node_limit(state: RunState, stage: StageName) -> int | None:
    """Return the current node limit of a stage, with the ablations that reviewers requested; None if the record has
    none."""
    found, requested = state.read_setting(f"search.{stage}.nodes"), state.search.requested_ablations
    return found + len(requested) * (stage == "ablation") if isinstance(found, int) and state.kind == "paper" else None


def stage_fields(state: RunState, stage: StageName) -> dict[str, Any]:
    """Return the fields of `StageFacts`."""
    known, pending = state.search.stages[stage], ()
    if known.is_settled and known.summary is None:
        under_way = Counter(KIND_NAMES[one.kind] for one in state.list_stage_nodes(stage) if not one.is_finished)
        pending = (*(f"{format_quantity(number, kind)} running" for kind, number in under_way.items()), "its report")
    return {
        "stage": stage,
        "node_limit": find_node_limit(state, stage),
        "best": known.best,
        "ended": known.end_reason,
        "limited": known.limit_reason,
        "pending": pending,
    }


def _walk_stage(state: RunState, stage: StageName) -> Iterator[tuple[Node, int]]:
    """Yield the nodes of a stage in order of decisions, children after their parent."""
    nodes = {node.id: node for node in state.list_stage_nodes(stage)}
    children: dict[str | None, list[Node]] = {}
    for node in nodes.values():
        parent = nodes.get(node.parent or "")
        key = parent.id if parent is not None and parent.decision < node.decision else None
        children.setdefault(key, []).append(node)
    waiting = [(node, 0) for node in reversed(children.get(None, []))]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(node.id, []))]


# --- branch points --------------------------------------------------------------------------------------------------


def list_branch_points(state: RunState) -> tuple[BranchPoint, ...]:
    """List the ancestors of this run, oldest first; empty if it is not a branch."""
    return tuple(
        BranchPoint(
            **one.branching.model_dump(include={"point", "seed", "by", "note"}),
            run=one.branching.parent,
            decisions=one.decision,
            nodes=one.nodes,
            calls=used.calls,
            tokens=used.input_tokens + used.output_tokens,
            usd=round(used.usd, 6),
            unpriced=used.unpriced,
            seconds=round(one.active_seconds, 3),
            code_seconds=round(one.experiment_seconds, 3),
        )
        for one in state.ancestry
        for used in [sum_usage(one.usage.values())]
    )


def format_branch_point(one: BranchPoint) -> str:
    """Format a branch point in one line safe for a terminal."""
    where = f"before the {one.point} stage" if one.point in STAGES else f"at {shorten(one.point, 20)}"
    who = f" by {shorten(one.by, 40)}" if one.by else ""
    return (
        f"branch of {shorten(one.run, 80)} {where}{who}: {format_quantity(one.nodes, 'node')} reused (cost: "
        f"{format_quantity(one.calls, 'call')}, {format_count(one.tokens)} tokens, "
        f"{format_dollars(one.usd, one.unpriced)}, {format_duration(one.seconds)} of work, "
        f"{format_duration(one.code_seconds)} of it running code)"
    )


# --- cells and trials in words ---------------------------------------------------------------------------------------


def format_remaining(cells: CellCounts) -> str:
    """Format the estimated compute time of waiting cells as `, about 4m12s compute left`; empty if unknown."""
    return f", about {format_duration(cells.seconds_left)} compute left" if cells.seconds_left is not None else ""


def format_trials(account: TuningReport, node: str) -> str:
    """Format the trials of a node in one line with the best value: `smooth: 4 trials, best 0.93`."""
    own = [one for one in account.trials if one.node == node]
    if not own:
        return "best settings repeated with another seed"
    values = [one.values[account.dataset] for one in own if account.dataset in one.values]
    best = f", best {(max if account.metric.higher_is_better else min)(values):.4g}" if values else ""
    failed = sum(one.outcome == "failed" for one in own)
    return (
        f"{', '.join(dict.fromkeys(to_plain(one.arm) for one in own))}: {format_quantity(len(own), 'trial')}"
        f"{best}{f', {failed} failed' if failed else ''}"
    )
