"""Effects of ablations: pairs, intervals, verdicts, and the rows of the report."""

from __future__ import annotations

from statistics import stdev
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from labwright.record.claims.differences import MeanEstimate, build_difference, compute_mean_p
from labwright.record.claims.estimates import (
    Claim,
    adjust_p_values,
    compute_claims,
    compute_detectable_effect,
    compute_p_value,
)
from labwright.record.claims.part_effects import PartEffect, compute_unpaired_spread
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Node
from labwright.record.schema.repository import MetricDirection, PartWay, RepositoryCommand
from labwright.stages.repository.ablation_report import (
    NO_OPTIMIZER,
    WHOLE_TRAINING,
    MeasuredPart,
    build_results,
    classify_patch_run,
    compute_effect,
    exceeds_sum,
    is_coarse_metric,
)
from labwright.stages.repository.ablation_study import RepositoryAblation
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.baseline_reproduction import BASELINE_SEEDS

BASELINE = {1001: 0.80, 1002: 0.82, 1003: 0.81, 1004: 0.83, 1005: 0.80}


def claim(condition: str, values: dict[int, float]) -> Claim:
    """Build the claim of an arm from its values by seed."""
    (found,) = compute_claims(
        "validation",
        [
            (
                Node(id=f"{condition}{seed}", decision=1, parent=None, stage="ablation", kind="replicate", seed=seed),
                [
                    Measurement(
                        name="r2",
                        value=value,
                        condition=condition,
                        dataset="d",
                        split="validation",
                        seed=seed,
                        grade="logged",
                    )
                ],
            )
            for seed, value in values.items()
        ],
    )
    return found


def part(name: str, *effects: float | None, first: int = 1001, **more: Any) -> MeasuredPart:
    """Build a component that loses the given amount at each seed; None: its run failed."""
    base = {first + at: value for at, value in enumerate(BASELINE.values())}
    pairs = zip(base, effects, strict=False)
    without = {seed: base[seed] - effect for seed, effect in pairs if effect is not None}
    if not without:
        return MeasuredPart(name, **more)
    a, b = claim("baseline", base), claim(f"without-{name}", without)
    effect = build_difference(RunState(), a, b, higher=True)
    return MeasuredPart(name, effect=PartEffect(effect, a, b, compute_p_value(effect.values)), **more)


def test_a_part_that_helps_has_a_positive_effect_and_a_failed_run_none() -> None:
    assert compute_effect("max", 0.80, 0.60) == compute_effect("max", 0.82, 0.62) == 0.2
    assert compute_effect("min", 2.0, 2.5) == 0.5 and compute_effect("min", 2.2, 2.0) == -0.2
    assert compute_effect("max", 0.82, None) is None and compute_effect("max", None, 0.69) is None


def test_rows_have_verdicts_and_are_corrected_for_each_other() -> None:
    wide, slight = (0.1, 0.11, 0.09, 0.1, 0.105), (0.03, 0.031, 0.029, 0.03, 0.0305)
    harm, noise = (-0.05, -0.048, -0.061, -0.055, -0.052), (0.01, -0.01, 0.004, -0.005, 0.002)
    measured = [
        part("wide", *wide),
        part("slight", *slight),
        part("harm", *harm),
        part("noise", *noise),
        part("same", 0.2, 0.2, 0.2, 0.2, 0.2),
        part("few", 0.1, 0.11, 0.09, None, None),
        part("search", *wide, first=0),
        part("still", 0.0, 0.0, 0.0, 0.0, 0.0, gate="no effect"),
        part("apart", gate="not reached"),
        part("broken", gate="failed"),
        part("plumbing", *wide, gate="breaks the program"),
        part("targets", *wide, gate="changes what is scored"),
        part("unrun", gate="no effect"),
    ]
    rows = {row.part: row for row in build_results(measured, is_coarse=False)}
    assert {name: row.called for name, row in rows.items()} == {
        "wide": "critical",
        "slight": "helps",
        "harm": "harmful",
        "noise": "no measurable difference",
        "same": "unknown",
        "few": "unknown",
        "search": "unknown",
        "still": "no effect",
        "apart": "not reached",
        "broken": "not measured",
        "plumbing": "breaks the program",
        "targets": "changes what is scored",
        "unrun": "not measured",
    }
    found = [part("p", *one).effect for one in (wide, slight, harm, noise)]
    adjusted = adjust_p_values([one.p if one is not None else None for one in found])
    assert [rows[name].p for name in ("wide", "slight", "harm", "noise")] == pytest.approx(adjusted), (
        "of the others nothing could be decided, so nothing was tested"
    )
    row, sd = rows["wide"], stdev(wide)
    assert row.detectable == pytest.approx(compute_detectable_effect(5, sd, 4)) and row.fresh
    assert (row.n, row.relative) == (5, pytest.approx(0.101 / 0.812))
    assert row.key == "diff/d/r2/baseline~without-wide"
    assert (rows["still"].mean, rows["apart"].mean, rows["broken"].mean, rows["few"].n) == (0.0, None, None, 3)
    assert rows["search"].n == 5 and not rows["search"].fresh and rows["search"].low is None
    assert rows["same"].flag == "the same at every seed, so it cannot be tested" and rows["same"].detectable is None
    alone = build_results([measured[0], measured[11]], is_coarse=False)
    assert alone[0].p == found[0].p if found[0] is not None else False, "what is not ranked is not corrected for"


def test_a_certain_effect_within_the_noise_between_seeds_is_negligible() -> None:
    small = part("small", 0.01, 0.011, 0.009, 0.01, 0.0105)  # the baseline has a standard deviation of 0.013
    worse = part("worse", -0.002, -0.0021, -0.0019, -0.002, -0.0022)
    wide = part("wide", 0.01, 0.013, 0.007, 0.014, 0.006)
    assert [row.called for row in build_results([small, worse, wide], is_coarse=False)] == [
        "negligible",
        "negligible",
        "helps",
    ]


@pytest.mark.parametrize(
    ("effects", "first", "coarse", "verdict"),
    [
        ((0.0,), 0, False, "no effect"),
        ((0.0,), 0, True, "unknown"),
        ((0.0, 0.0, 0.0, 0.0, 0.0), 1001, True, "no effect"),
        ((0.0, 0.0, 0.02, 0.0, -0.01), 1001, True, "no measurable difference"),
    ],
)
def test_an_equal_value_of_a_coarse_metric_at_one_seed_shows_nothing(
    effects: tuple[float, ...], first: int, coarse: bool, verdict: str
) -> None:
    (row,) = build_results([part("a", *effects, first=first, gate="no effect")], is_coarse=coarse)
    assert (row.called, row.n) == (verdict, len(effects))


@pytest.mark.parametrize(
    ("arms", "coarse"),
    [
        ([[59 / 72, 61 / 72, 60 / 72]], True),
        ([[0.8712345678912, 0.8812345678913], [0.5, 0.4123456789123]], False),
        ([[0.8712345678912, 0.8812345678913], [0.5, 0.5]], True),
    ],
)
def test_a_share_of_few_rows_and_a_short_number_are_coarse(arms: list[list[float]], coarse: bool) -> None:
    assert is_coarse_metric(arms) == coarse


def test_without_a_seed_means_are_compared() -> None:
    one, other = (0.8, 0.82, 0.81, 0.83, 0.80), (0.70, 0.75, 0.71, 0.72, 0.69)
    spread = compute_unpaired_spread(one, other)
    assert spread is not None
    found = MeanEstimate(0.098, spread)
    # scipy 1.17: ttest_ind((.8,.82,.81,.83,.8), (.7,.75,.71,.72,.69), equal_var=False)
    assert compute_mean_p(found, 0.0) == pytest.approx(0.000126762466)
    assert found.compute_interval(0.05)[0] == pytest.approx(0.06940628)
    assert compute_unpaired_spread([1.0, 1.0], [2.0, 2.0]) is None


def test_twins_do_together_what_none_does_alone() -> None:
    assert exceeds_sum([0.02] * 6, 0.2, sigma=0.01) and not exceeds_sum([0.02] * 6, 0.12, sigma=0.01)
    assert not exceeds_sum([-0.01] * 6, 0.0, sigma=0.01)
    assert not exceeds_sum([0.1, 0.7], 0.8, sigma=0.0), "0.1 + 0.7 is less than 0.8 in floating point"


@pytest.mark.parametrize(
    ("direction", "whole", "untrained", "gap"),
    [
        ("max", 0.2, 0.1, 0.6),
        ("max", 0.9, 0.1, 0.7),
        ("min", 2.3, 0.1, 1.5),
        ("min", 0.7, 2.0, 1.2),
        ("max", 0.8, 0.9, 0.0),
        ("max", None, None, 0.0),
        ("max", 0.8, 0.8, 0.0),
    ],
)
async def test_a_run_without_the_model_or_training_is_a_floor_only_if_its_result_is_worse(
    direction: MetricDirection, whole: float | None, untrained: float | None, gap: float
) -> None:
    def build(*_: object, parts: list[str], **__: object) -> object:
        return SimpleNamespace(metric="score", parts=parts)

    async def run(arm: Any, *_: object, **__: object) -> object:
        value = untrained if arm.parts == [WHOLE_TRAINING] else whole
        return None if value is None else SimpleNamespace(measurements=[SimpleNamespace(name="score", value=value)])

    command = RepositoryCommand(argv=("python", "run.py"), metric="stdout:score: (.*)", direction=direction)
    parts = Mock(whole=PartWay(what="no model", words=("--none",)), budget=9)
    baseline = Mock(setup=CommandSetup("t", command, Mock()))
    baseline.context.state.ablation = SimpleNamespace(parts=parts, tried_mutations={})
    baseline.runs.list_values.return_value = {BASELINE_SEEDS[0]: 0.8}
    baseline.runs.find_node.return_value = "n1"
    baseline.runs.build_arm = build
    baseline.runs.run = run
    assert await RepositoryAblation(baseline)._find_gap() == pytest.approx(gap)
    tried = [one.args[0].why for one in baseline.context.recorder.append.call_args_list]
    assert tried == [NO_OPTIMIZER] * (untrained == 0.8), "equal digits: no step was skipped"


@pytest.mark.parametrize(
    ("ablated", "reached", "repeatable", "gate"),
    [
        (0.7, True, True, "no effect"),
        (0.7, False, True, "not reached"),
        (0.6, None, True, "moved"),
        (0.6, False, False, "not reached"),
    ],
)
def test_whether_a_patch_did_anything(ablated: float, reached: bool | None, repeatable: bool, gate: str) -> None:
    assert classify_patch_run(0.7, ablated, reached=reached, repeatable=repeatable) == gate
