"""The acceptance set of the protocol review: sixty valid plans, forty with one flaw, and a key they do not tell."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.sets import read_set
from labwright.record.estimands import find_hypothesis_faults
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.idea import Idea

FILES = read_set(Path(__file__).parents[2] / "benchmarks" / "protocol" / "protocol.tar.gz")
KINDS = {
    "missing-baseline",
    "leakage",
    "confound-parameters",
    "confound-compute",
    "confound-data",
    "no-positive-control",
    "no-negative-control",
    "invalid-metric",
    "underpowered",
    "scope",
    "estimand-mismatch",
}
KEY: dict[str, dict[str, Any]] = json.loads(FILES["key.json"])
ENTRIES: list[dict[str, Any]] = [
    one for name, text in FILES.items() if name.startswith("plans-") for one in yaml.load(text, yaml.CSafeLoader)
]


def test_sixty_plans_forty_with_a_flaw_at_least_three_of_each_kind() -> None:
    assert len(ENTRIES) == 60 and [one["name"] for one in ENTRIES] == list(KEY)
    count = Counter(one["flaw"] for one in KEY.values())
    assert count.pop("none") == 20 and count.total() == 40
    assert count.keys() == KINDS and min(count.values()) >= 3


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one["name"])
def test_every_plan_is_one_that_a_run_would_take(entry: dict[str, Any]) -> None:
    plan, idea = DataPlan.model_validate(entry["plan"]), Idea.model_validate(entry["idea"])
    assert list(find_hypothesis_faults(plan)) == []
    assert idea.name == entry["name"] and 60 <= len(idea.abstract.split()) <= 150
    facts = [DatasetFacts.model_validate({**one, "fingerprint": "", "seed": 0}) for one in entry["facts"]]
    assert [one.name for one in facts] == [use.name for use in plan.datasets]
    compared = [arm for arm in plan.arms if arm.role != "ablation"]
    assert {arm.name for arm in compared if not arm.untuned} == set(plan.tuned_arms)
    assert {arm for one in plan.space for arm in one.arms} <= {arm.name for arm in compared}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one["name"])
def test_the_key_says_what_to_find_and_the_plan_does_not(entry: dict[str, Any]) -> None:
    key, text = KEY[entry["name"]], json.dumps(entry).lower()
    if key["flaw"] == "none":
        assert key.keys() == {"flaw", "temptation"}
    else:
        assert key["flaw"] in key["kinds"] and key["what"] and key["fields"] and set(key["kinds"]) <= KINDS
        assert all(any(word.lower() in key["what"].lower() for word in group) for group in key["words"])
    told = key.get("what") or key["temptation"]
    assert told.lower() not in text and "flaw" not in text and not any(kind in text for kind in KINDS if "-" in kind)
