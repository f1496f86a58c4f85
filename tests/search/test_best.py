"""Which node is carried forward, and what is a close call."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from labwright.record.events.running import Limited
from labwright.record.events.searching import Compared, Decided, Executed, Judged, Prepared, Proposed, Settled
from labwright.record.log import MemoryLog
from labwright.record.nouns.cells import Cell, CellLine
from labwright.record.nouns.data import DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.nouns.decisions import Compare, End, Expand, Seen, Wait
from labwright.record.nouns.nodes import STAGES, Attempt, NodeKind, StageName
from labwright.search import tree
from labwright.search.policy import BestFirst
from labwright.search.score import Entry, gain, measured, panel_of, ranked
from labwright.search.tree import View, view_of
from tests.search.worlds import PLAN, World, new_log, run, settings


@pytest.mark.parametrize(("higher", "expected"), [(True, "n0002"), (False, "n0001")])
def test_the_best_follows_the_direction_of_the_metric(higher: bool, expected: str) -> None:
    log = new_log()
    metric = MetricSpec(name="log_loss", higher_is_better=higher)
    log.append(Prepared(data_plan=PLAN.model_copy(update={"metrics": (metric,)}), datasets=()))
    for k, value in ((1, 0.2), (2, 0.4)):
        log.append(Decided(k=k, action=Expand(stage="preliminary", kind="draft", seed=0)))
        one = Measurement(
            name="log_loss",
            value=value,
            condition="method",
            dataset="digits",
            split="validation",
            seed=0,
            grade="computed",
        )
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=(one,))))
        log.append(Judged(node=f"n000{k}", status="good"))
    best = view_of(log.state, "preliminary", Seen(through=2)).best
    assert best is not None and best.id == expected


def test_tuning_chooses_a_setting_for_all_arms_alike() -> None:
    log = new_log()
    first = {"baseline": 0.5, "method": 0.5}
    suits_method, suits_both = {"baseline": 0.9, "method": 0.3}, {"baseline": 0.4, "method": 0.4}
    for k, values in enumerate((first, suits_method, suits_both), start=1):
        stage: StageName = "preliminary" if k == 1 else "tuning"
        kind: NodeKind = "draft" if k == 1 else "tune"
        log.append(Decided(k=k, action=Expand(stage=stage, kind=kind, seed=0, parent="n0001" if k > 1 else None)))
        found = tuple(
            Measurement(
                name="log_loss",
                value=value,
                condition=arm,
                dataset="digits",
                split="validation",
                seed=0,
                grade="computed",
            )
            for arm, value in values.items()
        )
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=found)))
        log.append(Judged(node=f"n000{k}", status="good"))
        if k == 1:
            log.append(Settled(stage="preliminary", best="n0001", ended="it ran"))
    view = view_of(log.state, "tuning", Seen(through=3))
    assert view.best is not None and view.best.id == "n0003"
    assert replace(view, stage="agenda").best == view.root


TWO = PLAN.model_copy(update={"datasets": (DatasetUse(name="digits"), DatasetUse(name="wine"))})


def compared(
    stage: StageName, *found: dict[str, float], plan: DataPlan = TWO, diverged: dict[str, tuple[str, ...]] | None = None
) -> View:
    """A stage of nodes that measured these losses of the method, by dataset, and diverged on those, by node."""
    log = new_log()
    log.append(Prepared(data_plan=plan, datasets=()))
    for k, values in enumerate(found, start=1):
        log.append(Decided(k=k, action=Expand(stage=stage, kind="draft", seed=0)))
        values = tuple(
            Measurement(
                name="log_loss",
                value=value,
                condition="method",
                dataset=dataset,
                seed=0,
                split="validation",
                grade="computed",
            )
            for dataset, value in values.items()
        )
        lines = tuple(
            CellLine(cell=Cell(dataset=dataset, arm="method"), outcome="failed", diverged=True)
            for dataset in (diverged or {}).get(f"n000{k}", ())
        )
        log.append(Executed(node=f"n000{k}", attempt=Attempt(number=1, seconds=1, measurements=values, cells=lines)))
        log.append(Judged(node=f"n000{k}", status="good"))
    return view_of(log.state, stage, Seen(through=len(found)))


def best_of(view: View) -> str:
    assert view.best is not None
    return view.best.id


def test_nodes_are_compared_over_the_panel_of_their_stage_alone() -> None:
    found = {"digits": 0.10}, {"digits": 0.30, "wine": 0.20}, {"digits": 0.31, "wine": 0.10}
    wide, main = compared("agenda", *found), compared("preliminary", *found)
    assert [one.id for one in wide.widest] == ["n0002", "n0003"] and best_of(wide) == "n0003"
    assert len(main.widest) == 3 and best_of(main) == "n0001", "the first stage compares the main dataset alone"
    assert [len(panel_of(stage, TWO).entries) for stage in STAGES] == [2, 4, 4, 4]


def test_nodes_that_lack_different_cells_are_compared_over_what_all_of_them_have() -> None:
    names = "digits", "wine", "iris"
    plan = PLAN.model_copy(update={"datasets": tuple(DatasetUse(name=name) for name in names)})
    view = compared(
        "agenda", {"digits": 0.3, "wine": 0.3}, {"digits": 0.2, "iris": 0.9}, {"wine": 0.0, "digits": 0.25}, plan=plan
    )
    assert {entry.dataset for entry in view.shared.entries} == {"digits"} and best_of(view) == "n0002"


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
    lost = next(one for one in view.good if one.id == "n0002")
    assert ranked(lost, view.panel).get(Entry("wine", "method", "")) == worst
    assert [one.id for one in view.widest] == (["n0001", "n0002", "n0003"] if worst else ["n0001", "n0003"])
    assert best_of(view) == "n0003", "what was measured counts, whatever else was said of the cell"
    assert measured(lost, view.plan) == {Entry("digits", "method", ""): 0.1}, "nothing is measured where it diverged"


def test_a_dataset_on_which_the_first_node_scored_nothing_does_not_decide_alone() -> None:
    metric = MetricSpec(name="log_loss", higher_is_better=True, worst=0.0)
    view = compared(
        "agenda",
        {"digits": 0.90, "wine": 0.0},
        {"digits": 0.20, "wine": 0.801},
        {"digits": 0.95, "wine": 0.800},
        plan=TWO.model_copy(update={"metrics": (metric,)}),
    )
    gains = [gain(one, view.widest[0], view.panel) for one in view.widest]
    assert gains == pytest.approx([0.0, (-0.7 / 0.9 + 1) / 2, (0.05 / 0.9 + 1) / 2]) and best_of(view) == "n0003"


def node(log: MemoryLog, k: int, action: Expand, *, method: float, seconds: float = 1.0) -> None:
    """A finished node that measured the method and a baseline at 0.5."""
    log.append(Decided(k=k, action=action))
    log.append(Proposed(node=f"n{k:04d}", decision=k, title="", plan="", varies="", source_sha256="0"))
    values = {"baseline": 0.5, "method": method}
    found = tuple(
        Measurement(
            name="log_loss",
            value=value,
            condition=arm,
            dataset="digits",
            split="validation",
            seed=action.seed,
            grade="computed",
        )
        for arm, value in values.items()
    )
    log.append(Executed(node=f"n{k:04d}", attempt=Attempt(number=1, seconds=seconds, measurements=found)))
    log.append(Judged(node=f"n{k:04d}", status="good"))


def tuned(*values: tuple[float, float], noise: float = 0.01) -> MemoryLog:
    """A root at 0.40 with four replicates, and tuned nodes of so large a loss and so many seconds."""
    log = new_log()
    node(log, 1, Expand(stage="preliminary", kind="draft", seed=0), method=0.40, seconds=9.0)
    log.append(Settled(stage="preliminary", best="n0001", ended="it ran"))
    for k in range(2, 6):
        node(
            log,
            k,
            Expand(stage="preliminary", kind="replicate", parent="n0001", seed=k),
            method=0.4 + noise * (-1) ** k,
        )
    for k, (value, seconds) in enumerate(values, start=6):
        node(log, k, Expand(stage="agenda", kind="improve", parent="n0001", seed=0), method=value, seconds=seconds)
    return log


def view(log: MemoryLog, **changes: object) -> View:
    return view_of(log.state, "agenda", Seen(through=100), settings=settings(**changes))


def test_differences_within_the_noise_go_to_the_cheaper_node_or_the_earlier_one() -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    assert view(log).noise == pytest.approx({"digits": 0.011547 / 2}, rel=1e-3), "of the mean over both arms"
    best = {order: view(log, order=order).best for order in ("ticket", "arrival")}
    assert best["ticket"] is not None and best["ticket"].id == "n0006"
    assert best["arrival"] is not None and best["arrival"].id == "n0008"
    assert {one.id for one in view(log).equals} == {"n0006", "n0007", "n0008"}


def test_without_replicates_the_noise_is_unknown_and_the_measured_best_is_taken() -> None:
    quiet = tuned((0.300, 5.0), (0.295, 8.0), noise=0.0)
    assert view(quiet).noise == {} and view(quiet).undecided is None
    best = view(quiet).best
    assert best is not None and best.id == "n0007"


def test_a_close_call_is_compared_once_a_pair_at_the_end_and_decides() -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    given = settings(agenda={"nodes": 3, "num_seeds": 0}, preliminary={"nodes": 3, "num_seeds": 0})
    policy, k, asked = BestFirst(given), 20, list[tuple[str, str]]()
    while True:
        seen = Seen(through=k)
        action = policy.pick(view_of(log.state, "agenda", seen, settings=given), Random(k))
        if isinstance(action, End):
            break
        log.append(Decided(k=k, action=action, seen=seen))
        if isinstance(action, Expand):
            log.append(Judged(node=f"n{k:04d}", status="good"))
        elif isinstance(action, Compare):
            asked.append((action.a, action.b))
            waiting = view_of(log.state, "agenda", Seen(through=k - 1), settings=given)
            assert policy.pick(waiting, Random(0)) == Wait(), "a comparison in flight is waited for, not asked again"
            log.append(Compared(k=k, a=action.a, b=action.b, better=action.b, reasons="simpler"))
        else:
            log.append(Decided(k=k, action=action))
        k += 1
        assert k < 40
    assert asked == [("n0006", "n0007"), ("n0007", "n0008")]
    best = view_of(log.state, "agenda", Seen(through=k), settings=given).best
    assert best is not None and best.id == "n0008"


def test_comparisons_are_asked_at_most_twice_and_not_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    log = tuned((0.300, 5.0), (0.295, 8.0), (0.305, 3.0))
    assert view(log).undecided == ("n0006", "n0007")
    with monkeypatch.context() as patched:
        patched.setattr(tree, "COMPARISONS", 0)
        assert view(log).undecided is None
    log.append(Limited(reason="time", stage="agenda"))
    given = settings(agenda={"nodes": 3, "num_seeds": 0}, preliminary={"nodes": 3, "num_seeds": 0})
    action = BestFirst(given).pick(view_of(log.state, "agenda", Seen(through=100), settings=given), Random(0))
    assert not isinstance(action, Compare)


def test_a_search_in_noise_compares_within_its_bound() -> None:
    class Noisy(World):
        def measured(self, action: Expand, rng: Random) -> tuple[Measurement, ...]:
            found = super().measured(action, rng)
            return tuple(one.model_copy(update={"value": 0.5 + one.value / 100}) for one in found)

    log, _ = run(buggy=0.0, world=Noisy, num_seeds=4, max_seeds=4, order="arrival")
    asked = [one.action for one in log.state.decisions.values() if isinstance(one.action, Compare)]
    assert asked and len({(one.a, one.b) for one in asked}) == len(asked)
    assert all(sum(one.stage == stage for one in asked) <= 2 for stage in ("tuning", "agenda"))
