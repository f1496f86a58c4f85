"""Queries on the tree as one decision may see it. A `View` is a value: equal views give equal picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from labwright.record.ablation_results import line_of
from labwright.record.events.searching import Locked
from labwright.record.fold.state import RunState, marks_of
from labwright.record.ladder import ladder_space
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import ABLATION_PLAN, Action, Compare, Expand, Extend, Seen, Work, summary_of
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Node, NodeKind, StageName, StageSummary, node_id
from labwright.record.nouns.tuning import Hyperparameter
from labwright.record.spaces import widened
from labwright.record.tuning import Studies, TrialResult, efforts, results, studies_of
from labwright.search.repairs import Together, failed_alike
from labwright.search.score import FEWEST, WITHIN, Panel, close, common, coverage, gain, noise, paired, panel_of
from labwright.search.settings import SearchSettings

Pair = tuple[str, str]
"""Two nodes, the one decided on earlier first."""

Planning = Literal["no", "due", "asked", "done"]

COMPARISONS = 2
"""Close calls a stage that a model may decide; what noise hides matters too little for more."""


@dataclass(frozen=True)
class View:
    """A stage as decision k may see it: nodes whose results are not in `seen` show as running, and nothing more."""

    stage: StageName
    plan: DataPlan
    nodes: dict[str, Node]
    """Every node of the run by id, in the order of decisions."""
    root: Node | None
    """The best of the stage before, or of an earlier one where that is suspect."""
    settled: dict[StageName, Node | None] = field(default_factory=dict[StageName, Node | None])
    """The best node of every stage before this one; None where all in it turned out suspect."""
    reports: dict[StageName, bool] = field(default_factory=dict[StageName, bool])
    """The stages whose report was decided on since they settled, and whether it may be seen to be written."""
    written: dict[StageName, StageSummary] = field(default_factory=dict[StageName, StageSummary])
    """The reports that may be seen."""
    compared: dict[Pair, str | None] = field(default_factory=dict[Pair, str | None])
    """Which of two nodes of this stage a comparison found the sounder one; None: neither."""
    asked: frozenset[Pair] = frozenset()
    """Comparisons whose answer may not be known yet."""
    taken: dict[str, str] = field(default_factory=dict[str, str])
    """Node -> the item that it took up, of those that took one up."""
    items: tuple[str, ...] = ()
    """What the agenda lists: the idea's experiments; in ablation what was planned, else its risk factors."""
    planning: Planning = "no"
    """Whether the ablations are planned: `asked` until the plan may be seen, `no` where the risks are taken up."""
    missing: dict[str, tuple[Node, ...]] = field(default_factory=dict[str, tuple[Node, ...]])
    """What a reviewer of the draft asks for and nothing refuses: item -> the node that took it up, and its debugs."""
    trials: tuple[TrialResult, ...] = ()
    """What settings came to, in the stages that tune; of those whose results may not be seen, that they run."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Node of cells -> arm -> hash of the code that its cells see."""
    extended: dict[str, Extend] = field(default_factory=dict[str, Extend])
    """Dimensions that were widened."""
    given: dict[str, float] = field(default_factory=dict[str, float])
    """Arm -> what it was given of the plan's currency."""
    versions: dict[str, int] = field(default_factory=dict[str, int])
    """Arm -> versions of its code that were measured."""
    numbers: frozenset[tuple[str, int]] = frozenset()
    """Trials that were decided on, by arm and number."""
    bettered: dict[str, str] = field(default_factory=dict[str, str])
    """Node -> the arm that it was to make better."""
    seed: int = 0
    """The run's seed; search nodes run with it, replicates with the seeds after it."""
    limited: str | None = None
    """The limit that was reached, of the run or of this stage."""
    spent: str | None = None
    """The same of the whole run alone."""
    without: frozenset[NodeKind] = frozenset()
    """Nodes after the search that the budget has no room for."""
    ladder: tuple[Hyperparameter, ...] = ()
    """The space of the ladder's tuned rung (`record.ladder`); empty where there is no ladder."""
    locked: Locked | None = None
    """What is confirmed and with which seeds, once the agenda settled."""
    by_cost: bool = False
    """Whether ties may go to the cheaper node; otherwise (`ticket` order) to the earlier one."""

    @cached_property
    def searched(self) -> tuple[Node, ...]:
        """The nodes of this stage that count against its limit."""
        return tuple(node for node in self.nodes.values() if node.stage == self.stage and node.kind in SEARCH_KINDS)

    @cached_property
    def in_flight(self) -> tuple[Node, ...]:
        """Nodes of any stage that are not finished."""
        return tuple(node for node in self.nodes.values() if not node.finished)

    @cached_property
    def studies(self) -> Studies:
        """Trials by arm and version of its code."""
        return studies_of(self.trials)

    @property
    def in_trial(self) -> bool:
        """Whether settings are being tried whose results may not be seen yet."""
        return any(node.kind == "trial" for node in self.in_flight)

    @property
    def busy(self) -> bool:
        """Whether a result may come in that is not known yet."""
        return bool(self.in_flight or self.asked) or self.planning == "asked" or not all(self.reports.values())

    @property
    def taken_up(self) -> bool:
        return self.planning == "done" and self.turns("ablate") >= len(self.items)

    @cached_property
    def searching(self) -> tuple[Node, ...]:
        """Search nodes of this stage that are not finished, as far as may be seen."""
        return tuple(node for node in self.searched if not node.finished)

    @cached_property
    def good(self) -> tuple[Node, ...]:
        """Search nodes of this stage that worked and are not suspect."""
        return tuple(node for node in self.searched if node.status == "good" and not node.suspect)

    @cached_property
    def open(self) -> tuple[Node, ...]:
        """Those of them that may be built on, and that no repair stands for."""
        return tuple(node for node in self.good if not node.closed and node.id not in self.replaced)

    @cached_property
    def together(self) -> Together:
        """What children of one node failed of alike; in the last stage, nothing takes the place of what is ablated."""
        return (
            Together()
            if self.stage == "ablation"
            else Together(
                self.searched,
                frozenset(
                    node.id
                    for node in self.nodes.values()
                    if node.status == "good" and not (node.suspect or node.closed)
                ),
                self.taken,
            )
        )

    @cached_property
    def replaced(self) -> frozenset[str]:
        """The nodes for which a repair stands that works, or the same program with settings that were chosen."""
        return frozenset(
            (
                *self.together.stands_for.values(),
                *(node.parent for node in self.good if node.kind == "tune" and not node.closed and node.parent),
            )
        )

    @cached_property
    def widest(self) -> tuple[Node, ...]:
        """The nodes among which the best is chosen: those that measured most of the panel, earliest first."""
        candidates = (*([self.root] if self.root and self.root.id not in self.replaced else ()), *self.open)
        covered = [coverage(node, self.panel) for node in candidates]
        most = max(covered, default=0)
        return tuple(node for node, cells in zip(candidates, covered, strict=True) if cells == most)

    @cached_property
    def panel(self) -> Panel:
        """What the nodes of this stage are compared over."""
        return panel_of(self.stage, self.plan)

    @cached_property
    def shared(self) -> Panel:
        """What of the panel all of the widest nodes have: over it their gains are of the same cells."""
        return common(self.widest, self.panel)

    @cached_property
    def noise(self) -> dict[str, float]:
        """Dataset -> standard deviation between seeds, from the latest best node with replicates enough; or empty."""
        for best in reversed(self.settled.values()):
            replicates = self.replicates(best.id) if best is not None else ()
            if len(done := [node for node in replicates if node.status == "good"]) >= FEWEST:
                return noise(done, self.panel)
        return {}

    @cached_property
    def equals(self) -> tuple[Node, ...]:
        """The widest nodes that cannot be told from the one with the largest gain, cheapest (or earliest) first."""
        if not self.widest:
            return ()
        same = [node for node in self.widest if node is self.top or not self.told_apart(node)]
        return tuple(sorted(same, key=lambda node: (node.attempts[-1].seconds if self.by_cost else 0.0, node.decision)))

    @cached_property
    def top(self) -> Node:
        """Of the widest nodes the one with the largest gain at the run's seed."""
        return max(self.widest, key=lambda node: (gain(node, self.widest[0], self.shared), -node.decision))

    def told_apart(self, node: Node) -> bool:
        """Whether the top is better than a node by more than noise: by the seeds that both ran with, where these are
        enough, else by the spread of the latest best node."""
        found = paired(self.runs(self.top), self.runs(node), self.shared)
        sign = 1.0 if self.shared.metric.higher_is_better else -1.0
        if found:
            return any(sign * mean > WITHIN * error for mean, error in found.values())
        return not close(node, self.top, self.shared, self.noise)

    def runs(self, node: Node) -> tuple[Node, ...]:
        """A node and its replicates that worked."""
        return (node, *(one for one in self._reruns.get(node.id, ()) if one.status == "good" and not one.suspect))

    @cached_property
    def contested(self) -> tuple[Node, ...]:
        """The top and the node that noise would have it give way to, both to be run with a few seeds more; or none."""
        if not self.noise or len(self.equals) < 2 or self.equals[0] is self.top:
            return ()
        return () if close(self.top, self.equals[0], self.shared, {}) else (self.top, self.equals[0])

    @cached_property
    def best(self) -> Node | None:
        """The node to carry forward: most of the panel, largest gain; of a close call the one found sounder."""
        return self._duel()[0]

    @cached_property
    def answered(self) -> frozenset[str]:
        """Items of the agenda, and arms that were to be bettered, of which an author said that nothing is left to try:
        they are taken up no more."""
        said = (
            node.id for node in self.kind("improve") if node.failure is not None and node.failure.kind == "nothing left"
        )
        return frozenset(self.bettered.get(node) or self.taken.get(node, "") for node in said)

    @cached_property
    def unanswered(self) -> tuple[str, ...]:
        """What the agenda lists without these."""
        return tuple(item for item in self.items if item not in self.answered)

    @property
    def undecided(self) -> Pair | None:
        """The next close call that nobody has decided yet, while this stage may ask for more."""
        return self._duel()[1] if len(self.compared) < COMPARISONS else None

    def _duel(self) -> tuple[Node | None, Pair | None]:
        """The champion of the closest nodes so far, and the first pair among them that was not compared."""
        if self.stage == "ablation" or not self.equals:
            return self.root, None
        champion, *others = self.equals
        for other in [node for node in others if not close(node, champion, self.shared, {})]:  # equal is a tie
            pair = (champion.id, other.id) if champion.decision < other.decision else (other.id, champion.id)
            if pair not in self.compared:
                return champion, pair
            champion = other if self.compared[pair] == other.id else champion
        return champion, None

    @cached_property
    def parents(self) -> frozenset[str | None]:
        """The nodes that have a child; replicates and aggregates do not count."""
        return frozenset(node.parent for node in self.nodes.values() if node.kind in SEARCH_KINDS)

    def space_of(self, arm: str) -> tuple[Hyperparameter, ...]:
        """The dimensions of an arm, as wide as they are by now."""
        return widened(self.plan, arm, self.extended)

    def kind(self, kind: NodeKind) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.stage == self.stage and node.kind == kind)

    def turns(self, kind: NodeKind) -> int:
        """How many nodes of this kind took up an item: none that a person wrote, that ablates an earlier root, or whose
        item is taken up again."""
        root = self.root.id if self.root is not None and self.stage == "ablation" else None
        dropped = {node.id for node in self.together.dropped}
        return sum(
            not node.author and root in (None, node.parent) and node.id not in dropped and node.id not in self.bettered
            for node in self.kind(kind)
        )

    def debug_depth(self, node: Node) -> int:
        """How many debug attempts in a row end in this node; a repair of what children failed of is the first."""
        is_debug = node.kind == "debug" and node.parent is not None
        return 1 + (0 if node.mends else self.debug_depth(self.nodes[node.parent or ""])) if is_debug else 0

    def fails_as_before(self, node: Node) -> bool:
        """Whether a debugged program failed in the very same way again."""
        if node.mends:
            return failed_alike(node, tuple(self.nodes[name] for name in node.mends))
        before = self.nodes[node.parent].failure if node.kind == "debug" and node.parent is not None else None
        return (
            before is not None
            and node.failure is not None
            and ((before.kind, before.message) == (node.failure.kind, node.failure.message))
        )

    def debuggable(self, max_depth: int) -> tuple[Node, ...]:
        """Buggy leaves worth another try: with code to fix, not too deep, not failing alike for the second time, nor
        alike with a sibling."""
        return tuple(
            node
            for node in self.searched
            if node.status == "buggy"
            and node.source_sha256
            and node.id not in self.parents
            and node.id not in self.together.lines
            and (node.failure is None or node.failure.kind != "no answer")  # a model failed, not the code
            and not (node.closed or node.marked)
            and self.debug_depth(node) < max_depth
            and not self.fails_as_before(node)
        )

    def replicates(self, node: str) -> tuple[Node, ...]:
        """The replicates of a node, of any stage, failed ones included."""
        return tuple(self._reruns.get(node, ()))

    @cached_property
    def _reruns(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for one in self.nodes.values():
            if one.kind == "replicate" and one.parent is not None:
                found.setdefault(one.parent, []).append(one)
        return found


def view_of(
    state: RunState,
    stage: StageName,
    seen: Seen,
    *,
    before: int | None = None,
    marks_before: int | None = None,
    settings: SearchSettings | None = None,
) -> View:
    """The tree as decision `before` may see it (None: the next one). The state must hold a data plan and a start.

    Decisions made later are left out, so that a prompt rendered again shows what it showed the first time. So are marks
    and settlements that came later, or, where `marks_before` is given, those that came after that decision was made.
    """
    assert state.data_plan is not None and state.started is not None
    settings = settings or SearchSettings()
    marks_before = before if marks_before is None else marks_before
    earlier = {k: one.action for k, one in state.decisions.items() if before is None or k < before}
    known = state.nodes if marks_before is None else unmarked(state, marks_before)
    nodes = {
        node.id: node
        if node.decision in seen
        else Node(  # what the decision itself says, and nothing after it
            id=node.id,
            decision=node.decision,
            parent=node.parent,
            stage=node.stage,
            kind=node.kind,
            seed=node.seed,
            author=node.author,
            mends=node.mends,
            status="running",
        )
        for node in known.values()
        if before is None or node.decision < before
    }
    settled: dict[StageName, Node | None] = {
        name: nodes.get(last[1].best or "")
        for name in STAGES[: STAGES.index(stage)]
        if (last := state.stages[name].settlement(marks_before)) is not None
    }
    asked = {
        (action.a, action.b): k in seen
        for k, action in earlier.items()
        if isinstance(action, Compare) and action.stage == stage
    }
    taken = {node_id(k): action.item for k, action in earlier.items() if isinstance(action, Expand) and action.item}
    reports = _reports(state, earlier, before)
    planning = _planning(state, earlier, seen, settings) if stage == "ablation" else "no"
    found = results(state, seen, before=before) if stage in ("tuning", "agenda") else ()
    given = efforts(state, found) if found else ()
    items = state.started.idea.risks if stage == "ablation" else _agenda(state.started.idea, state.data_plan)
    if planning == "done" and state.planned is not None:
        items = tuple(one.item for one in state.planned.ablations)
    locked = next((one for k, one in reversed(state.locks) if before is None or k < before), None)
    missed = state.missed.missing if stage == "ablation" and state.missed is not None else ()
    return View(
        stage=stage,
        plan=state.data_plan,
        nodes=nodes,
        settled=settled,
        reports={name: k in seen and k in state.finished for name, k in reports.items()},
        written={
            name: state.stages[name].reports[k]
            for name, k in reports.items()
            if k in seen and k in state.stages[name].reports
        },
        root=next((node for node in reversed(settled.values()) if node is not None and not node.suspect), None),
        asked=frozenset(pair for pair, known in asked.items() if not known),
        compared={
            pair: state.compared[pair].better for pair, known in asked.items() if known and pair in state.compared
        },
        trials=found,
        codes={name: one.code for name, one in state.owed.items() if name in nodes and nodes[name].finished}
        if found
        else {},
        extended={action.dimension: action for action in earlier.values() if isinstance(action, Extend)},
        given={
            one.arm: one.seconds if state.data_plan.tuning.currency == "seconds" else float(one.looks) for one in given
        },
        versions={one.arm: one.versions for one in given},
        numbers=frozenset(
            (one.arm, one.number) for action in earlier.values() if isinstance(action, Expand) for one in action.trials
        ),
        bettered={node_id(k): action.arm for k, action in earlier.items() if isinstance(action, Expand) and action.arm},
        taken=taken,
        items=items,
        planning=planning,
        seed=state.started.seed,
        missing={
            one.ablation.item: tuple(nodes[node.id] for node in line_of(state, one.ablation.item) if node.id in nodes)
            for one in missed
            if not one.refused
        },
        limited=state.limited or state.stages[stage].limited,
        spent=state.limited,
        without=state.without,
        by_cost=settings.order == "arrival",
        locked=locked,
        ladder=ladder_space(state) if settings.ladder else (),
    )


def _agenda(idea: Idea, plan: DataPlan) -> tuple[str, ...]:
    """The idea's experiments; those that the plan's arms answer in full come last."""
    numbers = sorted(range(1, len(idea.experiments) + 1), key=lambda number: number in plan.covered)
    return tuple(idea.experiments[number - 1] for number in numbers)


def _planning(state: RunState, earlier: Mapping[int, Action], seen: Seen, settings: SearchSettings) -> Planning:
    """How far the plan of the ablations is. A stage that began without one goes on without."""
    k = next((k for k, action in earlier.items() if action == ABLATION_PLAN), None)
    if k is None:
        begun = any(
            node.kind == "ablate" and not node.author and node.decision in earlier
            for node in state.stage_nodes("ablation")
        )
        return "due" if settings.planned_ablations and not begun else "no"
    if k not in seen or k not in state.finished:
        return "asked"
    return "done" if state.planned is not None and state.planned.ablations else "no"


def unmarked(state: RunState, k: int) -> dict[str, Node]:
    """The nodes as they are, but without the marks of people that came after decision k."""
    nodes = dict(state.nodes)
    for mark in state.marked_since(k):
        for name, reason in marks_of(state, mark).items():
            if node := nodes.get(name):
                nodes[name] = node.model_copy(
                    update={"closed": ""}
                    if mark.mark == "closed"
                    else {"suspect": tuple(why for why in node.suspect if why != reason), "marked": node.marked - 1}
                )
    return nodes


def _reports(state: RunState, earlier: Mapping[int, Action], before: int | None) -> dict[StageName, int]:
    """For each stage the decision to report on what it settled on last; none where it settled again since."""
    works: dict[str, StageName] = {summary_of(name).task: name for name in STAGES}
    found: dict[StageName, int] = {
        works[action.task]: k for k, action in earlier.items() if isinstance(action, Work) and action.task in works
    }
    settlements = {name: state.stages[name].settlement(before) for name in found}
    return {name: k for name, k in found.items() if (last := settlements[name]) is None or k > last[0]}
