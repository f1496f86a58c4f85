"""The tree of a run as rows, and where the run branched off: a pure function of the state, which every view shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from labwright.inspector.cells import trials_text
from labwright.inspector.text import count, dollars, duration, short
from labwright.record.cells import CellCounts, CellStatus, all_cells, counts_of
from labwright.record.claims.means import seedless, winner
from labwright.record.claims.node_score import score_of
from labwright.record.effort import Account, account_of
from labwright.record.fold.facts import total_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Compare
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Node, NodeKind, NodeStatus, StageName, changed, retries

Cells = Mapping[str, tuple[CellStatus, ...]]
"""What became of the cells of each node (`record.cells.all_cells`): with many of them, that takes a while."""


class Row(Frozen):
    """One node. `depth` counts from the stage's root; `metric` is explained by `Tree.metric`.

    `why` is the message of its failure; `again` says what a second attempt was given; `seedless`: its replicates gave
    the same values for every seed; `closed`: why a person wants nothing built on it; `author`: who wrote its code;
    `cells`: those that it owes, None for a program that does all at once.
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


class CloseCall(Frozen):
    """Two nodes that measurements could not tell apart; `better` is the one that a model preferred, None: neither."""

    a: str
    b: str
    better: str | None
    answered: bool
    reasons: str


class StageFacts(Frozen):
    """Where a stage stands. `limited` is the limit of the stage that was reached, `pending` what a settled stage still
    has to do while the next one is searched."""

    stage: StageName
    node_limit: int | None
    best: str | None
    ended: str | None
    limited: str | None
    pending: tuple[str, ...]


class StageRows(StageFacts):
    """One stage with its nodes in the order of the tree."""

    compared: tuple[CloseCall, ...]
    nodes: tuple[Row, ...]

    @property
    def searched(self) -> int:
        """Finished nodes that count against the limit."""
        return sum(row.kind in SEARCH_KINDS and row.status not in ("proposed", "running") for row in self.nodes)


class ShownMetric(Frozen):
    """What the column `metric` is: the primary metric on one dataset's validation split, mean over the method's
    conditions."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    dataset: str


class BranchPoint(Frozen):
    """A run that this one branched off. What had been spent there counts against no limit of this run."""

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


class Tree(Frozen):
    """The whole tree. `winner` is the node that the paper reports, once there is one; `tuning` has every trial, None
    where the program tunes nothing."""

    metric: ShownMetric | None
    winner: str | None
    tuning: Account | None = None
    stages: tuple[StageRows, ...]
    ancestry: tuple[BranchPoint, ...] = ()

    def stage(self, name: StageName) -> StageRows:
        return next(stage for stage in self.stages if stage.stage == name)


def tree_of(state: RunState, cells: Cells | None = None) -> Tree:
    """The tree of a run, stages without nodes included; `cells` are all of its cells, where they are known."""
    path, plan, same = set[str](), state.data_plan, frozenset(seedless(state))
    cells = all_cells(state) if cells is None else cells
    at, account = winner(state), account_of(state)
    while at is not None and at in state.nodes and at not in path:
        path.add(at)
        at = state.nodes[at].parent

    def row(node: Node, depth: int) -> Row:
        failure = node.failure or (node.attempts[-1].failure if node.attempts else None)
        return Row(
            id=node.id,
            parent=node.parent,
            depth=depth,
            stage=node.stage,
            kind=node.kind,
            status=node.status,
            decision=node.decision,
            seed=node.seed,
            title=node.title,
            metric=score_of(node, plan),
            varies=trials_text(account, node.id) if node.kind == "trial" and account is not None else node.varies,
            attempts=len(node.attempts),
            plots=node.plots,
            seconds=sum(attempt.seconds for attempt in node.attempts),
            failure=failure.kind if failure else None,
            why=failure.message if failure else "",
            again="; ".join(changed(*pair) for pair in retries(node)),
            seedless=node.id in same,
            best=node.id == state.stages[node.stage].best,
            on_best_path=node.id in path,
            suspect=node.suspect,
            closed=node.closed,
            author=node.author,
            cells=counts_of(cells.get(node.id, ())),
        )

    metric = (
        ShownMetric(
            name=plan.primary.name,
            title=plan.primary.title or plan.primary.name,
            unit=plan.primary.unit,
            higher_is_better=plan.primary.higher_is_better,
            dataset=plan.datasets[0].name,
        )
        if plan is not None
        else None
    )
    return Tree(
        metric=metric,
        winner=winner(state),
        tuning=account,
        ancestry=branch_points(state),
        stages=tuple(
            StageRows(
                **stage_facts(state, name),
                compared=tuple(_close_calls(state, name)),
                nodes=tuple(row(node, depth) for node, depth in _walk(state, name)),
            )
            for name in STAGES
        ),
    )


def _close_calls(state: RunState, stage: StageName) -> Iterator[CloseCall]:
    for decided in state.decisions.values():
        action = decided.action
        if isinstance(action, Compare) and action.stage == stage:
            found = state.compared.get((action.a, action.b))
            yield CloseCall(
                a=action.a,
                b=action.b,
                better=found.better if found else None,
                answered=found is not None,
                reasons=found.reasons if found else "",
            )


def node_limit(state: RunState, stage: StageName) -> int | None:
    """How many nodes the search of a stage may make, as the run is set now; None where the record does not say."""
    found = state.setting(f"search.{stage}.nodes")
    return found if isinstance(found, int) else None


def stage_facts(state: RunState, stage: StageName) -> dict[str, Any]:
    """The fields of `StageFacts`."""
    known, pending = state.stages[stage], ()
    if known.settled and known.summary is None:
        under_way = Counter(node.kind for node in state.stage_nodes(stage) if not node.finished)
        pending = (
            *(f"{number} {kind}{'s' * (number > 1)} under way" for kind, number in under_way.items()),
            "its report",
        )
    return {
        "stage": stage,
        "node_limit": node_limit(state, stage),
        "best": known.best,
        "ended": known.ended,
        "limited": known.limited,
        "pending": pending,
    }


def _walk(state: RunState, stage: StageName) -> Iterator[tuple[Node, int]]:
    """The nodes of a stage, children after their parent, in the order of decisions."""
    nodes = {node.id: node for node in state.stage_nodes(stage)}
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


# --- where a run branched off ---------------------------------------------------------------------------------------


def branch_points(state: RunState) -> tuple[BranchPoint, ...]:
    """The runs that this one descends from, the first one first; empty for a run that did not branch off."""
    return tuple(
        BranchPoint(
            run=one.event.parent,
            point=one.event.point,
            decisions=one.decision,
            nodes=one.nodes,
            seed=one.event.seed,
            by=one.event.by,
            note=one.event.note,
            calls=used.calls,
            tokens=used.input_tokens + used.output_tokens,
            usd=round(used.usd, 6),
            unpriced=used.unpriced,
            seconds=round(one.active_seconds, 3),
            code_seconds=round(one.seconds_of_code, 3),
        )
        for one in state.ancestry
        for used in [total_of(one.usage.values())]
    )


def branch_text(one: BranchPoint) -> str:
    """A branch point in one line, safe for a terminal."""
    where = f"before the {one.point} stage" if one.point in STAGES else f"at {short(one.point, 20)}"
    who = f" by {short(one.by, 40)}" if one.by else ""
    return (
        f"branch of {short(one.run, 80)} {where}{who}: {one.nodes} nodes were taken over, which took "
        f"{one.calls} calls, {count(one.tokens)} tokens, {dollars(one.usd, one.unpriced)}, "
        f"{duration(one.seconds)} of work, {duration(one.code_seconds)} of it running code"
    )
