"""What children of one node failed of alike is mended once, in the node, and later children start from there."""

from __future__ import annotations

from random import Random

import pytest

from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    StageWinnerChosen,
)
from labwright.record.schema.decisions import ExpandTree, SearchAction, VisibleDecisions
from labwright.record.schema.nodes import Attempt, ErrorClass, Failure, StageName, format_node_id
from labwright.search.policy import BestFirstPolicy, ChainPolicy
from labwright.search.settings import SearchSettings
from labwright.search.shared_failures import compute_signature
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from tests.search.scripted_search import make_settings, measure, new_log


def failure(message: str, kind: ErrorClass = "other") -> Failure:
    return Failure(kind=kind, message=message)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("KeyError: 'wine'", 'KeyError: "wine"'),
        ("Traceback\nRuntimeError: mat1 (3x4) and mat2 (5x6)", "RuntimeError:  mat1 (64x10) and mat2 (128x2)\n"),
        ("the wall-clock limit of 60 s was reached", "the wall-clock limit of 90.5 s was reached"),
        ("no file /tmp/a1/nodes/n0003/x.npy", "no file nodes/n0007/x.npy"),
        ("at 0x7fa3 lost", "at 0x11 lost"),
        ("loss 1.5e-3 at step 7", "loss 2e8 at step 1,000"),
    ],
)
def test_a_signature_is_the_same_for_what_differs_from_run_to_run(a: str, b: str) -> None:
    assert compute_signature(failure(a)) == compute_signature(failure(b))


class Told:
    """A stage that goes on from a working node n0001, told decision by decision."""

    def __init__(self, stage: StageName = "agenda") -> None:
        self.log = new_log()
        self.stage: StageName = stage
        self.end(self.decide(ExpandTree(stage="preliminary", kind="draft", seed=0)), 0.4)
        self.log.append(StageWinnerChosen(stage="preliminary", best="n0001", ended="it ran"))

    def decide(self, action: SearchAction) -> int:
        k = self.log.state.last_decision + 1
        self.log.append(DecisionMade(k=k, action=action, seen=VisibleDecisions(through=k - 1)))
        return k

    def end(self, k: int, outcome: float | str | Failure) -> str:
        node = format_node_id(k)
        self.log.append(NodeProposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
        if isinstance(outcome, str | Failure):
            failed = failure(outcome) if isinstance(outcome, str) else outcome
            self.log.append(NodeJudged(node=node, status="buggy", failure=failed))
            return node
        values = tuple(measure(outcome, arm) for arm in ("baseline", "method"))
        self.log.append(AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1, measurements=values)))
        self.log.append(NodeJudged(node=node, status="good"))
        return node

    def child(self, outcome: float | str | Failure, *, parent: str = "n0001", item: str = "") -> str:
        kind = "ablate" if self.stage == "ablation" else "improve"
        return self.end(self.decide(ExpandTree(stage=self.stage, kind=kind, parent=parent, seed=0, item=item)), outcome)

    @property
    def view(self) -> StageSnapshot:
        return build_snapshot(self.log.state, self.stage, VisibleDecisions(through=100))

    def pick(self, policy: type[BestFirstPolicy | ChainPolicy] = BestFirstPolicy) -> ExpandTree:
        given = make_settings(
            num_seeds=0, agenda={"nodes": 12, "num_seeds": 0}, preliminary={"num_seeds": 0, "nodes": 8}
        )
        view = build_snapshot(self.log.state, self.stage, VisibleDecisions(through=100), settings=given)
        action = policy(given).next_search_node(view, Random(0))
        assert isinstance(action, ExpandTree)
        return action

    def mend(self, outcome: float | str) -> str:
        action = self.pick()
        assert action.repairs_children
        return self.end(self.decide(action), outcome)


@pytest.mark.parametrize("policy", [BestFirstPolicy, ChainPolicy])
def test_two_children_that_failed_alike_make_one_repair_of_their_parent(
    policy: type[BestFirstPolicy | ChainPolicy],
) -> None:
    told = Told()
    first = told.child("IndexError: index 3 is out of bounds")
    assert (told.pick(policy).kind, told.pick(policy).parent) == ("debug", first), "one alone is debugged by itself"
    second = told.child("IndexError: index 7 is out of bounds")
    action = told.pick(policy)
    assert (action.kind, action.parent, action.repairs_children) == ("debug", "n0001", (first, second))
    k = told.decide(action)
    third = told.child("IndexError: index 9 is out of bounds")
    assert policy(make_settings()).next_search_node(told.view, Random(0)) is None, "further children would fail alike"
    assert told.view.list_debuggable(SearchSettings()) == () and told.view.shared_failures.unrepaired_groups == (), (
        f"{third} waits for the repair too"
    )
    repair = told.end(k, 0.4)
    assert told.pick(policy).parent == repair and told.view.superseded_nodes == {"n0001"}
    assert told.view.best_node is not None and told.view.best_node.id == repair


def test_a_repair_that_fails_is_debugged_and_what_came_of_it_stands_for_the_parent() -> None:
    told = Told()
    told.child("KeyError: 'x'")
    told.child("KeyError: 'x'")
    failed = told.mend("ValueError: another one")
    assert told.view.count_debug_depth(told.log.state.nodes[failed]) == 1
    action = told.pick()
    assert (action.kind, action.parent, action.repairs_children) == ("debug", failed, ())
    repair = told.end(told.decide(action), 0.4)
    assert told.pick().parent == repair and told.view.superseded_nodes == {"n0001"}


def test_a_repair_that_fails_like_the_children_is_given_up_after_an_author_had_its_turn() -> None:
    told = Told()
    told.child("KeyError: 'x'")
    told.child("KeyError: 'x'")
    failed = told.mend("KeyError: 'x'")
    node = told.log.state.nodes[failed]
    assert told.view.needs_author(node) and told.view.list_debuggable(SearchSettings(author="never")) == ()
    action = told.pick()
    assert (action.kind, action.parent) == ("debug", failed)
    told.end(told.decide(action), "KeyError: 'x'")
    assert told.view.list_debuggable(SearchSettings()) == ()
    assert told.pick().kind == "improve" and told.pick().parent == "n0001"


def test_items_that_were_lost_are_taken_up_again_from_the_repair_and_no_other_twice() -> None:
    told = Told()
    told.child("KeyError: 'x'", item="one")
    told.child("KeyError: 'x'", item="two")
    told.mend(0.4)
    items = list[str]()
    for _ in range(4):
        action = told.pick()
        items.append(action.item)
        told.end(told.decide(action), 0.5)
    assert items == ["one", "two", "one", "two"], "then in turn, as without the failures"
    assert told.view.count_turns("improve") == 4
