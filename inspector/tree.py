"""The tree of a run as rows: a pure function of the state, which terminal, JSON and later the web page show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from statistics import fmean

from inspector.origin import Origin, origins_of
from record.attempts import changed, retries
from record.claims import seedless, winner
from record.fold.state import RunState
from record.nouns.data import DataPlan, MetricSpec, arm_of
from record.nouns.decisions import Compare
from record.nouns.frozen import Frozen
from record.nouns.nodes import Node, NodeStatus
from record.nouns.stages import STAGES, NodeKind, StageName

SEARCH_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "tune", "ablate"})
"""The kinds that count against a stage's ceiling; replicates and aggregates come on top."""


class Row(Frozen):
    """One node. `depth` counts from the stage's root; `metric` is explained by `Tree.metric`.

    `why` is the message of its failure; `again` says what a second attempt was given; `seedless`: its replicates gave
    the same values for every seed; `closed`: why a person wants nothing built on it; `author`:
    the person who wrote its code.
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


class CloseCall(Frozen):
    """Two nodes that measurements did not tell apart; `better` is the one that a model found sounder, None: neither."""

    a: str
    b: str
    better: str | None
    answered: bool
    reasons: str


class StageRows(Frozen):
    """One stage with its nodes in the order of the tree. `limited` is the ceiling of it that was reached, `owes` what
    a settled stage still has to do beside the next search."""

    stage: StageName
    ceiling: int | None
    best: str | None
    ended: str | None
    limited: str | None
    owes: tuple[str, ...]
    compared: tuple[CloseCall, ...]
    nodes: tuple[Row, ...]

    @property
    def searched(self) -> int:
        """Finished nodes that count against the ceiling."""
        return sum(row.kind in SEARCH_KINDS and row.status not in ("proposed", "running") for row in self.nodes)


class ShownMetric(Frozen):
    """What the column `metric` is: the primary metric on one dataset's validation split, mean over the method's
    conditions."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    dataset: str


class Tree(Frozen):
    """The whole tree. `winner` is the node that the paper reports, once there is one."""

    metric: ShownMetric | None
    winner: str | None
    stages: tuple[StageRows, ...]
    ancestry: tuple[Origin, ...] = ()

    def stage(self, name: StageName) -> StageRows:
        return next(stage for stage in self.stages if stage.stage == name)


Made = dict[str, tuple[tuple[object, ...], Row]]
"""Rows by node, with what each was made of."""


def tree_of(state: RunState, made: Made | None = None) -> Tree:
    """The tree of a run, stages without nodes included.

    `made` keeps rows from one call to the next: whoever shows a growing run makes those anew that changed.
    """
    rows = _Rows(state, {} if made is None else made)
    calls = _close_calls(state)
    return Tree(
        metric=_metric(state.data_plan), winner=winner(state),
        stages=tuple(_stage_rows(state, name, rows, calls.get(name, ())) for name in STAGES),
        ancestry=origins_of(state))


def ceiling_of(state: RunState, stage: StageName) -> int | None:
    """The ceiling of a stage's search nodes as the run is set now; None where the record does not say."""
    found = state.setting(f"search.{stage}.nodes")
    return found if isinstance(found, int) else None


def score_of(node: Node, plan: DataPlan | None) -> float | None:
    """The primary metric on the main dataset (validation), mean over the method's conditions, or else over all."""
    if plan is None:
        return None
    primary: MetricSpec = plan.primary
    cells = {one.condition: one.value for one in node.measurements
             if (one.name, one.dataset, one.split) == (primary.name, plan.datasets[0].name, "validation")}
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    values = [value for condition, value in cells.items() if arm_of(condition) in methods] or list(cells.values())
    return fmean(values) if values else None


def _metric(plan: DataPlan | None) -> ShownMetric | None:
    if plan is None:
        return None
    one = plan.primary
    return ShownMetric(name=one.name, title=one.title or one.name, unit=one.unit,
                       higher_is_better=one.higher_is_better, dataset=plan.datasets[0].name)


def _path(state: RunState, node: str | None) -> set[str]:
    """A node and its ancestors."""
    found: set[str] = set()
    while node is not None and node in state.nodes and node not in found:
        found.add(node)
        node = state.nodes[node].parent
    return found


def owes(state: RunState, stage: StageName) -> tuple[str, ...]:
    """What a settled stage still has to do, in words; nothing before it is settled and after its summary."""
    known = state.stages[stage]
    if not known.settled or known.summary is not None:
        return ()
    under_way = Counter(node.kind for node in state.stage_nodes(stage) if not node.finished)
    return (*(f"{number} {kind}{'s' * (number > 1)} under way" for kind, number in under_way.items()), "its report")


def _stage_rows(state: RunState, stage: StageName, rows: _Rows, calls: Sequence[CloseCall]) -> StageRows:
    known = state.stages[stage]
    return StageRows(
        stage=stage, ceiling=ceiling_of(state, stage), best=known.best, ended=known.ended, limited=known.limited,
        owes=owes(state, stage), compared=tuple(calls),
        nodes=tuple(rows.row(node, depth) for node, depth in _walk(state, stage)))


def _close_calls(state: RunState) -> dict[StageName, list[CloseCall]]:
    calls: dict[StageName, list[CloseCall]] = {}
    for decided in state.decisions.values():
        action = decided.action
        if isinstance(action, Compare):
            found = state.compared.get((action.a, action.b))
            calls.setdefault(action.stage, []).append(CloseCall(
                a=action.a, b=action.b, better=found.better if found else None, answered=found is not None,
                reasons=found.reasons if found else ""))
    return calls


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


class _Rows:
    """Makes the rows of a tree, or gives those that it made before of the same."""

    def __init__(self, state: RunState, made: Made) -> None:
        self._state = state
        self._made = made
        self._path, self._same = _path(state, winner(state)), frozenset(seedless(state))
        self._best = {stage.best for stage in state.stages.values()}

    def row(self, node: Node, depth: int) -> Row:
        of = (node, depth, self._state.data_plan, node.id in self._path, node.id in self._same, node.id in self._best)
        known = self._made.get(node.id)
        if known is None or known[0] != of:  # nodes are frozen: what did not change is the very same object
            known = self._made[node.id] = of, _row(self._state, node, depth, self._path, self._same)
        return known[1]


def _row(state: RunState, node: Node, depth: int, path: Set[str], same: Set[str]) -> Row:
    failure = node.failure or (node.attempts[-1].failure if node.attempts else None)
    return Row(
        id=node.id, parent=node.parent, depth=depth, stage=node.stage, kind=node.kind, status=node.status,
        decision=node.decision, seed=node.seed, title=node.title, varies=node.varies,
        metric=score_of(node, state.data_plan), attempts=len(node.attempts), plots=node.plots,
        seconds=sum(attempt.seconds for attempt in node.attempts), failure=failure.kind if failure else None,
        why=failure.message if failure else "", again="; ".join(changed(*pair) for pair in retries(node)),
        seedless=node.id in same, best=node.id == state.stages[node.stage].best, on_best_path=node.id in path,
        suspect=node.suspect, closed=node.closed, author=node.author)
