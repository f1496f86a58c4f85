"""Differences between arms and levels, and what code says of itself: one table, the same for all who are told it."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.models import roles
from labwright.models.client import render
from labwright.models.roles.role import AnyRole
from labwright.record.claims.estimates import Claim
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Node
from labwright.stages.difference_tables import build_mean_tables, build_tables
from tests.models.examples import INPUTS, TABLES, build_claim
from tests.stages.test_prompt_inputs import PLAN, cells


def node(values: dict[tuple[str, str], float], *said: Measurement, k: int = 1) -> Node:
    found = tuple(
        Measurement(
            name="log_loss",
            value=value,
            condition=condition,
            dataset=dataset,
            split="validation",
            seed=0,
            grade="scored",
        )
        for (dataset, condition), value in values.items()
    )
    return Node(
        id=f"n000{k}",
        decision=k,
        parent=None,
        stage="agenda",
        kind="improve",
        seed=0,
        attempts=(Attempt(number=1, seconds=1, measurements=found, self_reported=said),),
    )


RATE = Measurement(
    name="chosen_rate", value=0.02, condition="mixup@n50", dataset="digits", split="dev", seed=0, grade="logged"
)


def test_arms_are_told_from_the_first_baseline_and_levels_from_the_first_level() -> None:
    found = build_tables([node(dict(reversed(cells(0.5, 0.4).items())), RATE)], PLAN)
    assert {(one.same, one.first, one.value): one.by for one in found.arms} == {
        ("n50", "plain", 0.5): {"mixup": pytest.approx(-0.1)},
        ("n500", "plain", 0.4): {"mixup": pytest.approx(-0.1)},
    }
    assert {(one.same, one.first): one.by for one in found.levels} == {
        ("plain", "n50"): {"n500": pytest.approx(-0.1)},
        ("mixup", "n50"): {"n500": pytest.approx(-0.1)},
    }
    assert found.self_reported == (RATE,)


def test_an_ablation_is_compared_with_the_method_of_its_parent() -> None:
    parent = node(cells(0.5, 0.4))
    found = build_tables([node({("digits", "without-mix@n50"): 0.75}, k=2)], PLAN, parent=parent)
    assert [(one.same, one.first, one.value, one.by) for one in found.arms] == [
        ("n50", "mixup", 0.4, {"without-mix": pytest.approx(0.35)})
    ]


def test_means_over_replicates_are_told_among_those_over_as_many_and_one_seed_where_there_are_none(
    tmp_path: Path,
) -> None:
    def mean(condition: str, value: float, n: int) -> Claim:
        return build_claim("", "log_loss", "digits", condition, mean=value, n=n)

    one = node(cells(0.5, 0.4), RATE)
    found = build_mean_tables(
        [mean("plain@n50", 0.6, 3), mean("mixup@n50", 0.3, 3), mean("mixup@n500", 0.1, 2)], [one], PLAN
    )
    assert [(line.first, line.by, line.n) for line in found.arms] == [("plain", {"mixup": pytest.approx(-0.3)}, 3)]
    assert found.levels == () and found.self_reported == (RATE,)
    assert build_mean_tables([], [one], PLAN) == build_tables([one], PLAN)


@pytest.mark.parametrize("role", [roles.CODE, roles.FEEDBACK, roles.SUMMARY, roles.FIGURES], ids=lambda one: one.name)
def test_judge_tuner_reporter_and_author_of_figures_see_the_same_tables(role: AnyRole) -> None:
    inputs = INPUTS[role.name]
    user = render(role, inputs).user
    for line in ("- digits, n50: plain 0.85; margin -0.02\n", "- digits, margin: n50 0.83; n500 +0.12; mean of these"):
        assert line in user, line
    assert f"chosen_rate {TABLES.self_reported[0].value:g}" in user.replace("`", "")
