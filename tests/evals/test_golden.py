"""The worked cases of reproduce-then-ablate are computed as they are written, and a case that is not is told."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.evals.ablatecell_golden import COMPUTE, check_patch_scope, compute_interaction, find_disagreements

SHARED = Path(__file__).parents[3] / "shared" / "benchmarks" / "ablatecell" / "golden.json"
CASES: list[dict[str, Any]] = [
    {
        "id": "tie",
        "what": "recovery",
        "given": {"importance": {"a": 0.4, "b": 0.1, "c": 0.1}, "found": ["a", "c"], "k": 2},
        "expect": {"acc": 1.0, "exact": True, "regret": 0.0},
    },
    {
        "id": "few",
        "what": "recovery",
        "given": {"importance": {"a": 0.4, "b": -0.3}, "found": ["b"], "k": 2},
        "expect": {"acc": 0.5, "exact": False, "regret": 0.4},
    },
    {
        "id": "printed",
        "what": "t interval from mean, sd, n",
        "given": {"rows": [["x", 2, 2.0, 0.36, 1.976, 2.653]]},
        "expect": {"rows": [{"row": "x", "low": -1.234, "high": 5.234, "agrees": False, "sd_over_mean": 0.18}]},
    },
    {
        "id": "no file",
        "what": "parse metric",
        "given": {"spec": "m.json:a", "file": None},
        "expect": {"value": None, "failure": "no measurement", "message": "no such file"},
    },
]
CODE = (
    "import os\n\n\ndef pool(x):\n    log(x)\n    return x.mean(0)\n\n\ndef log(t):\n    print(t)\n\n\n"
    "class Net:\n    def forward(self, x):\n        return pool(x)\n\n    def score(self, p):\n        return p\n"
)


@pytest.mark.skipif(not SHARED.is_file(), reason="../shared/benchmarks is not there")
def test_all_worked_cases_agree() -> None:
    cases = json.loads(SHARED.read_text())["cases"]
    assert find_disagreements(cases) == [] and len(cases) >= 72


def test_what_does_not_agree_is_told_case_by_case() -> None:
    wrong = copy.deepcopy(CASES)
    wrong[0]["expect"]["acc"] = 0.5
    wrong[3]["expect"]["failure"] = "x"
    wrong.append({"id": "new", "what": "magic", "given": {}, "expect": {}})
    assert find_disagreements(wrong) == [
        "tie: acc is 1.0, not 0.5",
        "no file: failure is 'no measurement', not 'x'",
        "new: there is no implementation for 'magic'",
    ]
    assert find_disagreements(CASES) == [] and len(COMPUTE) >= 24


@pytest.mark.parametrize(
    ("old", "new", "target", "changed", "verdict"),
    [
        ("x.mean(0)", "x[0]", "pool", ("pool",), "in scope"),
        ("print(t)", "pass", "log", ("log",), "decoy"),
        ("    log(x)\n", "    # gone\n    log(x)\n", "pool", (), "no change"),
        ("return p\n", "return 0\n", "pool", ("Net.score",), "out of scope"),
        ("return pool(x)", "return x", "pool", ("Net.forward",), "in scope"),
        ("import os", "import re", "pool", ("import",), "in scope"),
        ("return pool(x)", "return x", "Net", ("Net.forward",), "in scope"),
        ("return pool(x)", "return x", "log", ("Net.forward",), "out of scope"),
    ],
)
def test_a_patch_stays_with_its_part(old: str, new: str, target: str, changed: tuple[str, ...], verdict: str) -> None:
    assert CODE.count(old) == 1
    found = check_patch_scope(CODE, CODE.replace(old, new), target, {"Net.score"})
    assert (found.changed, found.verdict) == (changed, verdict)


def test_twins_do_together_what_none_does_alone() -> None:
    assert compute_interaction([0.001, -0.002], 0.15, sigma=0.01).is_joint
    assert compute_interaction([0.05, 0.07], 0.125, sigma=0.01) == (
        pytest.approx(0.005),
        pytest.approx(0.051961524),
        False,
    )
