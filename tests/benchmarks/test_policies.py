"""Policies are compared on stored runs: budgets count the baseline, worlds are the same, a table comes of real runs."""

from __future__ import annotations

import json
import sys
from math import log, sqrt
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from benchmarks.ablation_policies import RunningArm, pick_arm
from benchmarks.policies import (
    POLICIES,
    ComparisonTerms,
    PolicyWorld,
    StoredRuns,
    main,
    measure_repository,
    play_policy,
)
from labwright.search.ablation_bandit import order_sweep

RNG = Random(3)
LEVELS = (0.3, 0.2, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01, 0.005, 0.0, -0.06)
BASELINE = tuple(0.7 + RNG.gauss(0, 0.01) for _ in range(10))
TABLE = StoredRuns(
    name="made",
    direction="max",
    baseline=BASELINE,
    parts={
        f"p{place}": tuple(value - level - RNG.gauss(0, 0.01) for value in BASELINE)
        for place, level in enumerate(LEVELS)
    },
)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_spends_its_budget_the_baseline_included(name: str) -> None:
    world = PolicyWorld(TABLE, Random(1), 30, agreement=0.5)
    POLICIES[name](world)
    spent = sum(map(len, world.seen.values())) + len(world.seeds)
    assert spent + world.runs_left == 30 and world.runs_left <= 1
    assert len(world.seeds) == max(map(len, world.seen.values()))


def test_measuring_every_part_finds_what_the_printed_algorithm_does_not() -> None:
    means = {name: fmean(play_policy(TABLE, policy, 30, ComparisonTerms(60))) for name, policy in POLICIES.items()}
    assert means["boundary"] > 0.9 > 0.7 > means["literal"], means
    again = [play_policy(TABLE, POLICIES["boundary"], 14, ComparisonTerms(5, 0.6, paired=False)) for _ in range(2)]
    assert again[0] == again[1]


def test_what_harms_is_none_of_those_that_help_most() -> None:
    assert TABLE.compute_importance()["p10"] == 0.0 and max(TABLE.compute_importance().values()) == pytest.approx(
        0.3, abs=0.02
    )


def test_a_table_is_measured_and_compared(tmp_path: Path) -> None:
    repository = tmp_path / "tiny"
    repository.mkdir()
    (repository / "train.py").write_text(
        "import sys, nowhere\nloss = 1.0 + int(sys.argv[1]) / 1e4\nif 'off' in sys.argv: loss += 0.25\n"
        "loss += 0.0  # term\nprint('loss', loss)\n"
    )
    truth = {
        "direction": "min",
        "command": "python train.py {seed}",
        "env": {},
        "metric": "stdout:loss ([0-9.]+)",
        "faults": [{"edit": ["train.py", "import sys, nowhere", "import sys"]}],
        "components": ["flag", "term"],
        "reference": {
            "flag": {"args": ["off"]},
            "term": {"edits": [["train.py", "+= 0.0", "+= 0.5"]]},
            "flag+term": {"args": ["off"]},
        },
    }
    table = measure_repository(repository, truth, 2, sys.executable)
    assert table.baseline == (1.1001, 1.1002)
    assert {name: table.list_effects(name) for name in table.parts} == {
        "flag": pytest.approx([0.25, 0.25]),
        "term": pytest.approx([0.5, 0.5]),
    }
    (tmp_path / "t.json").write_text(table.model_dump_json())
    main([str(tmp_path / "t.json"), "--draws", "2", "--budgets", "6", "--out", str(tmp_path / "o.json")])
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["acc_at_5"]["boundary"]["6"]["all"]["acc"] == 0.4, "two parts, of which both are found, of five places"


# --- the boundary policy ----------------------------------------------------------------------------------------------


def arms(**effects: float | tuple[float, ...]) -> list[RunningArm]:
    return [
        RunningArm(name, effects=value if isinstance(value, tuple) else (value,)) for name, value in effects.items()
    ]


def test_every_arm_is_measured_once_in_the_order_of_priors_before_any_is_repeated() -> None:
    priors = {"a": 0.2, "b": 0.9, "c": 0.9, "d": 0.1}
    seen = [RunningArm(name, prior) for name, prior in priors.items()]
    order = list[str]()
    while (one := pick_arm(seen, sigma=0.01, k=2).next) is not None and len(order) < 4:
        order.append(one)
        seen = [RunningArm(arm.name, arm.prior, (0.1,)) if arm.name == one else arm for arm in seen]
    assert order == order_sweep(priors) == ["b", "c", "a", "d"]


def test_an_arm_without_a_value_is_tried_again_after_the_others_and_given_up_in_the_end() -> None:
    failing = RunningArm("x", 0.9, failed_runs=1)
    assert pick_arm([failing, RunningArm("y", 0.1)], sigma=0.1, k=1).next == "y"
    assert pick_arm([failing, *arms(y=0.1, z=0.2)], sigma=0.1, k=1).next == "x"
    given_up = pick_arm([RunningArm("x", 0.9, failed_runs=3), *arms(y=0.1, z=0.2)], sigma=0.1, k=1)
    assert given_up.next in ("y", "z") and "x" not in given_up.radius


def test_runs_go_to_the_edge_of_the_best_whatever_their_sign() -> None:
    found = pick_arm(arms(a=0.3, b=-0.12, c=(0.07, 0.07), d=0.05, e=0.01), sigma=0.02, k=3)
    assert (found.inside, found.outside, found.next, found.separated) == ("c", "d", "d", False)
    assert found.radius["c"] == pytest.approx(0.02 * sqrt(2 * log(7) / 2))
