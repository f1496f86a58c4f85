"""Which node is carried forward, and what is a close call."""

from __future__ import annotations

from random import Random

import pytest

from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    NodesCompared,
    PlanPrepared,
    StageWinnerChosen,
)
from labwright.record.schema.data_plan import DataPlan, DatasetUse, MetricSpec
from labwright.record.schema.decisions import CompareNodes, EndStage, ExpandTree, VisibleDecisions, WaitForResult
from labwright.record.schema.nodes import STAGES, Attempt, Cell, CellOutcomeLine, PanelEntry, StageName
from labwright.search import stage_snapshot
from labwright.search.policy import BestFirstPolicy
from labwright.search.stage_snapshot import (
    StageSnapshot,
    build_snapshot,
    collect_values,
    compute_ranked_values,
    get_panel,
)
from tests.search.scripted_search import PLAN, make_settings, measure, new_log

TWO = PLAN.model_copy(update={"datasets": (DatasetUse(name="digits"), DatasetUse(name="wine"))})


def compared(
    stage: StageName, *found: dict[str, float], plan: DataPlan = TWO, diverged: dict[str, tuple[str, ...]] | None = None
) -> StageSnapshot:
    """A stage of nodes that measured these losses of the method, by dataset, and diverged on those, by node."""
    log = new_log()
    log.append(PlanPrepared(data_plan=plan, datasets=()))
    for k, values in enumerate(found, start=1):
        log.append(DecisionMade(k=k, action=ExpandTree(stage=stage, kind="draft", seed=0)))
        values = tuple(measure(value, dataset=dataset) for dataset, value in values.items())
        lines = tuple(
            CellOutcomeLine(cell=Cell(dataset=dataset, arm="method"), outcome="failed", diverged=True)
            for dataset in (diverged or {}).get(f"n000{k}", ())
        )
        attempt = Attempt(number=1, seconds=1, measurements=values, cells=lines)
        log.append(AttemptExecuted(node=f"n000{k}", attempt=attempt))
        log.append(NodeJudged(node=f"n000{k}", status="good"))
    return build_snapshot(log.state, stage, VisibleDecisions(through=len(found)))


def best_of(view: StageSnapshot) -> str:
    assert view.best_node is not None
    return view.best_node.id


def test_nodes_are_compared_over_the_panel_of_their_stage_alone() -> None:
    found = {"digits": 0.10}, {"digits": 0.30, "wine": 0.20}, {"digits": 0.31, "wine": 0.10}
    wide, main = compared("agenda", *found), compared("preliminary", *found)
    assert [one.id for one in wide.widest_nodes] == ["n0002", "n0003"] and best_of(wide) == "n0003"
    assert len(main.widest_nodes) == 3 and best_of(main) == "n0001", "the first stage compares the main dataset alone"
    assert [len(get_panel(stage, TWO).entries) for stage in STAGES] == [2, 4, 4, 4]


@pytest.mark.parametrize("worst", [16.0, None])
def test_training_that_diverged_is_the_worst_value_where_there_is_one_else_missing(worst: float | None) -> None:
    metric = MetricSpec(name="log_loss", higher_is_better=False, worst=worst)
    view = compared(
        "agenda",
        {"digits": 0.5, "wine": 0.5},
        {"digits": 0.1},
        {"digits": 0.4, "wine": 0.5},
        plan=TWO.model_copy(update={"metrics": (metric,)}),
        diverged={"n0002": ("wine",), "n0003": ("digits",)},
    )
    lost = next(one for one in view.good_nodes if one.id == "n0002")
    assert compute_ranked_values(lost, view.panel).get(PanelEntry("wine", "method", "")) == worst
    assert [one.id for one in view.widest_nodes] == (["n0001", "n0002", "n0003"] if worst else ["n0001", "n0003"])
    assert best_of(view) == "n0003", "what was measured counts, whatever else was said of the cell"
    assert collect_values(lost, view.plan.primary_metric) == {PanelEntry("digits", "method", ""): 0.1}, (
        "nothing where it diverged"
    )


def node(log: MemoryLog, k: int, action: ExpandTree, *, method: float, seconds: float = 1.0) -> None:
    """A finished node that measured the method and a baseline at 0.5."""
    log.append(DecisionMade(k=k, action=action))
    log.append(NodeProposed(node=f"n{k:04d}", decision=k, title="", plan="", varies="", source_sha256="0"))
    values = {"baseline": 0.5, "method": method}
    found = tuple(measure(value, arm, seed=action.seed) for arm, value in values.items())
    log.append(AttemptExecuted(node=f"n{k:04d}", attempt=Attempt(number=1, seconds=seconds, measurements=found)))
    log.append(NodeJudged(node=f"n{k:04d}", status="good"))


def tuned(*values: tuple[float, float], noise: float = 0.01) -> MemoryLog:
    """A root at 0.40 with four replicates, and tuned nodes of so large a loss and so many seconds."""
    log = new_log()
    node(log, 1, ExpandTree(stage="preliminary", kind="draft", seed=0), method=0.40, seconds=9.0)
    log.append(StageWinnerChosen(stage="preliminary", best="n0001", ended="it ran"))
    for k in range(2, 6):
        action = ExpandTree(stage="preliminary", kind="replicate", parent="n0001", seed=k)
        node(log, k, action, method=0.4 + noise * (-1) ** k)
    for k, (value, seconds) in enumerate(values, start=6):
        node(log, k, ExpandTree(stage="agenda", kind="improve", parent="n0001", seed=0), method=value, seconds=seconds)
    return log


def view(log: MemoryLog, **changes: object) -> StageSnapshot:
    return build_snapshot(log.state, "agenda", VisibleDecisions(through=100), settings=make_settings(**changes))


def test_differences_within_the_noise_go_to_the_cheaper_node_or_the_earlier_one() -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    assert view(log).noise == pytest.approx({"digits": 0.011547}, rel=1e-3)
    best = {order: view(log, order=order).best_node for order in ("ticket", "arrival")}
    assert best["ticket"] is not None and best["ticket"].id == "n0006"
    assert best["arrival"] is not None and best["arrival"].id == "n0008"
    assert {one.id for one in view(log).indistinguishable_nodes} == {"n0006", "n0007", "n0008"}


def test_a_close_call_is_compared_once_a_pair_at_the_end_and_decides() -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    given = make_settings(agenda={"nodes": 3, "num_seeds": 0}, preliminary={"nodes": 3, "num_seeds": 0})
    policy, k, asked = BestFirstPolicy(given), 20, list[tuple[str, str]]()
    while True:
        seen = VisibleDecisions(through=k)
        action = policy.pick(build_snapshot(log.state, "agenda", seen, settings=given), Random(k))
        if isinstance(action, EndStage):
            break
        log.append(DecisionMade(k=k, action=action, seen=seen))
        if isinstance(action, ExpandTree):
            log.append(NodeJudged(node=f"n{k:04d}", status="good"))
        elif isinstance(action, CompareNodes):
            asked.append((action.a, action.b))
            waiting = build_snapshot(log.state, "agenda", VisibleDecisions(through=k - 1), settings=given)
            assert policy.pick(waiting, Random(0)) == WaitForResult(), "a comparison in flight is not asked again"
            log.append(NodesCompared(k=k, a=action.a, b=action.b, better=action.b, reasons="simpler"))
        else:
            log.append(DecisionMade(k=k, action=action))
        k += 1
        assert k < 40
    assert asked == [("n0006", "n0007"), ("n0007", "n0008")]
    best = build_snapshot(log.state, "agenda", VisibleDecisions(through=k), settings=given).best_node
    assert best is not None and best.id == "n0008"


def test_comparisons_are_asked_at_most_twice_and_not_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    assert view(log).undecided_pair == ("n0006", "n0007")
    with monkeypatch.context() as patched:
        patched.setattr(stage_snapshot, "MAX_COMPARISONS", 0)
        assert view(log).undecided_pair is None
    log.append(LimitReached(reason="time", stage="agenda"))
    given = make_settings(agenda={"nodes": 3, "num_seeds": 0}, preliminary={"nodes": 3, "num_seeds": 0})
    limited = build_snapshot(log.state, "agenda", VisibleDecisions(through=100), settings=given)
    assert not isinstance(BestFirstPolicy(given).pick(limited, Random(0)), CompareNodes)
