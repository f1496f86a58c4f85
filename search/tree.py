"""Queries on the tree as one decision may see it. A `View` is a value: equal views give equal picks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from record.fold import RunState
from record.nouns import STAGES, DataPlan, Node, NodeKind, Seen, StageName
from search.score import coverage, gain, judging_arms

SEARCH_KINDS: frozenset[NodeKind] = frozenset({"draft", "debug", "improve", "tune", "ablate"})


@dataclass(frozen=True)
class View:
    """A stage as decision k may see it: nodes whose results are not in `seen` show as running, and nothing more."""

    stage: StageName
    plan: DataPlan
    nodes: dict[str, Node]
    """Every node of the run by id, in the order of decisions."""
    root: Node | None
    """The best of the stage before; None in the first stage."""
    items: tuple[str, ...] = ()
    """What the agenda lists: the idea's experiments; in ablation its risk factors."""
    seed: int = 0
    """The run's seed; search nodes run with it, replicates with the seeds after it."""
    limited: str | None = None
    by_cost: bool = False
    """Whether ties may go to the cheaper node; otherwise (`ticket` order) to the earlier one."""

    @cached_property
    def here(self) -> tuple[Node, ...]:
        """The nodes of this stage."""
        return tuple(node for node in self.nodes.values() if node.stage == self.stage)

    @cached_property
    def searched(self) -> tuple[Node, ...]:
        """The nodes of this stage that count against its ceiling."""
        return tuple(node for node in self.here if node.kind in SEARCH_KINDS)

    @cached_property
    def in_flight(self) -> tuple[Node, ...]:
        return tuple(node for node in self.here if not node.finished)

    @cached_property
    def searching(self) -> tuple[Node, ...]:
        """Search nodes of this stage that are not finished, as far as may be seen."""
        return tuple(node for node in self.searched if not node.finished)

    @cached_property
    def good(self) -> tuple[Node, ...]:
        """Search nodes of this stage that worked and are not suspect."""
        return tuple(node for node in self.searched if node.status == "good" and not node.suspect)

    @cached_property
    def widest(self) -> tuple[Node, ...]:
        """The nodes among which the best is chosen: those that measured most of the plan's cells, earliest first."""
        candidates = (*([self.root] if self.root else ()), *self.good)
        most = max((coverage(node, self.plan) for node in candidates), default=0)
        return tuple(node for node in candidates if coverage(node, self.plan) == most)

    @cached_property
    def best(self) -> Node | None:
        """The node to carry forward: widest coverage of the plan, then largest gain, then the cheaper or earlier."""
        if self.stage == "ablation" or not self.widest:
            return self.root
        reference, arms = self.widest[0], judging_arms(self.stage, self.plan)
        return max(self.widest, key=lambda node: (
            gain(node, reference, self.plan, arms),
            -node.attempts[-1].seconds if self.by_cost else 0.0, -node.decision))

    @cached_property
    def children(self) -> dict[str, tuple[Node, ...]]:
        """The children of every node, replicates and aggregates left out."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            if node.parent is not None and node.kind in SEARCH_KINDS:
                found.setdefault(node.parent, []).append(node)
        return {parent: tuple(nodes) for parent, nodes in found.items()}

    def kind(self, kind: NodeKind) -> tuple[Node, ...]:
        """The nodes of this stage of one kind."""
        return tuple(node for node in self.here if node.kind == kind)

    def debug_depth(self, node: Node) -> int:
        """How many debug attempts in a row end in this node."""
        depth = 0
        while node.kind == "debug" and node.parent is not None:
            depth, node = depth + 1, self.nodes[node.parent]
        return depth

    def repeats(self, node: Node) -> int:
        """How often, up the chain of debugging, the very same failure was seen."""
        failure, count = node.failure, 0
        while node.failure is not None and failure is not None:
            same = (node.failure.kind, node.failure.message) == (failure.kind, failure.message)
            count += same
            if not same or node.kind != "debug" or node.parent is None:
                break
            node = self.nodes[node.parent]
        return count

    def debuggable(self, max_depth: int) -> tuple[Node, ...]:
        """Buggy leaves worth another try: not too deep, and not failing alike for the second time."""
        return tuple(node for node in self.searched
                     if node.status == "buggy" and not self.children.get(node.id)
                     and self.debug_depth(node) < max_depth and self.repeats(node) < 2)

    def replicates(self, node: str) -> tuple[Node, ...]:
        """The replicates of a node, of any stage, failed ones included."""
        return tuple(one for one in self.nodes.values() if one.kind == "replicate" and one.parent == node)

    @cached_property
    def targets(self) -> tuple[Node, ...]:
        """The nodes to replicate: the best; in ablation every ablated variant that worked, too."""
        best = [self.best] if self.best is not None else []
        return (*best, *self.good) if self.stage == "ablation" else tuple(best)


def view_of(
    state: RunState, stage: StageName, seen: Seen, *, before: int | None = None, by_cost: bool = False
) -> View:
    """The tree as decision `before` may see it (None: the next one). The state must hold a data plan and a start.

    Decisions made later are left out, so that a prompt rendered again shows what it showed the first time.
    """
    assert state.data_plan is not None and state.started is not None
    earlier = STAGES[: STAGES.index(stage)]
    best = next((b for name in reversed(earlier) if (b := state.stages[name].best) is not None), None)
    idea = state.started.idea
    nodes = {node.id: node if node.decision in seen else _unseen(node) for node in state.nodes.values()
             if before is None or node.decision < before}
    return View(
        stage=stage, plan=state.data_plan, nodes=nodes, root=nodes.get(best or ""),
        items=idea.risks if stage == "ablation" else idea.experiments, seed=state.started.seed,
        limited=state.limited, by_cost=by_cost)


def _unseen(node: Node) -> Node:
    """What the decision itself says of a node, and nothing of what came after."""
    return Node(id=node.id, decision=node.decision, parent=node.parent, stage=node.stage, kind=node.kind,
                seed=node.seed, status="running")
