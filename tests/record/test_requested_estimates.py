"""Estimates that an outline asks for, and the printed forms of effects: means, intervals, per cent and points."""

from __future__ import annotations

import pytest

from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import (
    compute_requested_estimates,
    find_registered_key,
    find_registered_pair,
)
from labwright.record.estimands import classify_scale
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import strip_form, to_plain_text
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, RivalExplanation
from labwright.record.schema.paper import EstimateRequest
from tests.hypotheses import make_hypotheses
from tests.paper import synthetic_paper

GAIN = "baseline@noise20 - method@noise20"


def make_run() -> RunState:
    """Build a run with a registered gain, whose accuracy ranges from 0 to 1."""
    run = synthetic_paper.make_state()
    asked, limits = make_hypotheses("method", "baseline", higher=False, level="noise20"), {"low": 0.0, "high": 1.0}
    metrics = tuple(one.model_copy(update=limits) if one.name == "accuracy" else one for one in plan_of(run).metrics)
    run.search.data_plan = plan_of(run).model_copy(update={"metrics": metrics, "hypotheses": asked})
    return run


def plan_of(run: RunState) -> DataPlan:
    assert run.search.data_plan is not None
    return run.search.data_plan


def ask(name: str, estimand: str, metric: str = "") -> EstimateRequest:
    return EstimateRequest(name=name, estimand=estimand, metric=metric, purpose="a reader asks for it")


def test_any_estimand_over_measured_cells_is_computed_with_its_interval() -> None:
    run = make_run()
    cost = ask("cost-of-noise", "baseline@noise40 - baseline@noise00")
    share = ask("share-kept", "(baseline@noise20 - method@noise20) / (baseline@noise40 - baseline@noise00)")
    found, faults = compute_requested_estimates(run, (cost, share, ask("in-points", GAIN, "accuracy")))
    assert faults == () and [one.key for one in found] == [
        f"estimate/{name}" for name in ("cost-of-noise", "share-kept", "in-points")
    ]
    means = {one.key: one for one in compute_paper_claims(run)}
    noisy, clean = (means[f"test/digits/log_loss/baseline@{level}"].mean for level in ("noise40", "noise00"))
    assert found[0].found.mean == pytest.approx(noisy - clean)
    printed = [one.printed for one in found]
    assert printed[0]["estimate/cost-of-noise.n"].tex == "5"
    assert printed[0]["estimate/cost-of-noise.mean"].tex == f"{noisy - clean:.3f}"
    assert printed[0]["estimate/cost-of-noise.confidence"].tex == "95"
    assert not any("points" in key or "percent" in key for key in printed[0]), "a log loss is no share"
    assert {"estimate/share-kept.percent", "estimate/share-kept.percent_ci"} <= printed[1].keys()
    points = to_plain_text(printed[2]["estimate/in-points.points"])
    assert float(points) == pytest.approx(100 * (found[2].found.mean or 0), abs=0.06)
    assert " to " in printed[2]["estimate/in-points.points_ci"].tex


def test_only_a_difference_is_a_pair_of_cells() -> None:
    effect, plan = Effect(estimand=GAIN, smallest=0.01), plan_of(make_run())
    pair = find_registered_pair(effect, plan)
    assert pair is not None and [one.arm for one in pair] == ["baseline", "method"]
    change = effect.model_copy(update={"estimand": "change(baseline@noise20, method@noise20)"})
    assert find_registered_pair(change, plan) is None, "a relative change is in another unit"


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (ask("Cost of noise", GAIN), "its name must be lower-case words joined by hyphens"),
        (ask("cost", "baseline@noise90 - method@noise20"), "noise90"),
        (ask("cost", GAIN, "recall"), "there is no metric 'recall' in the plan"),
        (ask("cost", "no-schedule@noise20 - absent@noise20"), "there is no arm 'absent'"),
        (ask("cost", "0.5"), "it reads no cell"),
        (ask("cost", GAIN), "it is registered: use the keys of hypothesis/gain/1"),
        (ask("cost", f"-({GAIN})"), "it is registered: use the keys of hypothesis/gain/1"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_line(request_: EstimateRequest, fault: str) -> None:
    found, faults = compute_requested_estimates(make_run(), (request_,))
    assert found == () and len(faults) == 1 and fault in faults[0]
    assert faults[0].startswith(f"estimates: {request_.name!r} cannot be computed: ") and "\n" not in faults[0]


def test_an_arm_that_only_an_ablation_measured_is_estimated_too() -> None:
    run = make_run()
    arms = tuple(one for one in plan_of(run).arms if one.name != "no-schedule")
    run.search.data_plan = plan_of(run).model_copy(update={"arms": arms})
    (found,), faults = compute_requested_estimates(run, [ask("cost", "no-schedule@noise20 - method@noise20")])
    means = {one.key: one.mean for one in compute_paper_claims(run)}
    first, second = (means[f"test/digits/log_loss/{arm}@noise20"] for arm in ("no-schedule", "method"))
    assert faults == () and found.found.mean == pytest.approx(first - second) and len(found.found.values) == 5


def test_a_request_for_what_is_registered_gets_its_key() -> None:
    plan = make_run().search.data_plan
    assert plan is not None
    rival = RivalExplanation(
        statement="x", estimand="baseline@noise40 - method@noise40", ours="above zero", theirs="near zero"
    )
    first = plan.hypotheses[0].model_copy(
        update={"rival": rival, "alternatives": (Effect(estimand="baseline@noise00 - method@noise00", smallest=0.02),)}
    )
    plan = plan.model_copy(update={"hypotheses": (first,)})
    assert find_registered_key(ask("a", GAIN), plan) == ("hypothesis/gain/1", 1)
    assert find_registered_key(ask("a", "baseline@noise00 - method@noise00"), plan) == (
        "hypothesis/gain/alternative-1",
        1,
    )
    assert find_registered_key(ask("a", "baseline@noise40 - method@noise40"), plan) == ("hypothesis/gain/rival", 1)
    assert find_registered_key(ask("a", "method@noise40 - baseline@noise40"), plan) == ("hypothesis/gain/rival", -1)
    assert find_registered_key(ask("a", f"-({GAIN})"), plan) == ("hypothesis/gain/1", -1)
    assert find_registered_key(ask("a", "max(baseline, method, over=[noise20])"), plan) == ("", 0)
    assert find_registered_key(ask("a", "baseline@noise40 -"), plan) == ("", 0)


def test_effects_and_shares_print_in_every_form() -> None:
    run = make_run()
    plan = plan_of(run)
    effects = format_decisions(decide_hypotheses(run), plan)
    assert effects["hypothesis/gain/1.mean"].tex == "0.055" and effects["hypothesis/gain/1.n"].tex == "5"
    assert {strip_form(key) for key in effects} == {"hypothesis/gain/1", "hypothesis/gain/rival"}
    claims = format_claims(compute_paper_claims(run), plan)
    key = "test/digits/accuracy/method@noise20"
    assert float(claims[f"{key}.percent"].tex) == pytest.approx(100 * float(claims[f"{key}.mean"].tex), abs=0.06)
    assert "test/digits/log_loss/method@noise20.percent" not in claims
    assert format_setups(run)["margin.gain.1"].tex == "0.02"
    assert format_setups(run)["hypothesis.gain.title"].tex == "gain"
    described = plan.arms[0].model_copy(update={"description": "The 300 of 2000 nearest, 3x3, 40 %, at 0.25, top-10."})
    run.search.data_plan = plan.model_copy(update={"arms": (described, *plan.arms[1:])})
    counts = {key: value.tex for key, value in format_setups(run).items() if key.startswith("plan.")}
    assert counts == {"plan.300": "300", "plan.2000": "2000"}


@pytest.mark.parametrize(
    ("estimand", "scale"),
    [
        ("adam@a0", "value"),
        ("adam@a0 - sgd@a0", "difference"),
        ("mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1])", "difference"),
        ("adam@a0 / sgd@a0", "ratio"),
        ("change(adam@a0, sgd@a0)", "ratio"),
        ("slope(adam - sgd, over=levels)", "other"),
        ("adam@a0 + sgd@a0", "other"),
    ],
)
def test_an_estimand_has_the_unit_of_its_metric_or_of_a_difference_or_none(estimand: str, scale: str) -> None:
    assert classify_scale(estimand) == scale
