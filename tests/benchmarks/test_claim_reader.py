"""The set of wordings (benchmarks/wording): whole, of valid plans, and labelled by what the arrays say."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest

from benchmarks.claim_reader import (
    OVERCLAIMS,
    RECORDED,
    SET_FOLDER,
    build_run_record,
    find_refusals,
    make_cases,
    summarise,
)
from benchmarks.sets import read_set
from labwright.models.client import Models
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_t_quantile
from labwright.record.estimands import evaluate_estimand, find_effect_metric, find_hypothesis_faults
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import CallAnswered
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, parse_arm, parse_level
from labwright.record.schema.hypotheses import Effect, Hypothesis

FILES = read_set(SET_FOLDER)
STUDIES: dict[str, dict[str, Any]] = {one["id"]: one for one in json.loads(FILES["studies.json"])["studies"]}
SENTENCES: list[dict[str, Any]] = json.loads(FILES["sentences.json"])
ABSTRACTS: list[dict[str, Any]] = json.loads(FILES["abstracts.json"])
KEY: dict[str, dict[str, str]] = json.loads(FILES["key.json"])
FORMS = "mean|sd|n|low|high|pm|ci"
MACRO = re.compile(r"\\([a-z]+)\{([^}]*)\}")


def _plan(study: str) -> DataPlan:
    return DataPlan.model_validate(STUDIES[study]["plan"])


def _texts() -> Iterator[tuple[str, str, str, str]]:
    """Every rendering: id, study, which one, text."""
    for one in (*SENTENCES, *ABSTRACTS):
        for which in ("old", "new"):
            text = one[which] if isinstance(one[which], str) else "\n".join(one[which].values())
            yield one["id"], one["study"], which, text


def test_there_are_thirty_and_thirty_of_each() -> None:
    ids = [one["id"] for one in (*SENTENCES, *ABSTRACTS)]

    assert len(set(ids)) == 120 and set(ids) == set(KEY)
    for rows in (SENTENCES, ABSTRACTS):
        assert Counter(KEY[one["id"]]["label"] for one in rows) == {"fine": 30, "too much": 30}
        assert {one["study"] for one in rows} == set(STUDIES)
    assert all(one["why"] and one["kind"] for one in KEY.values())


@pytest.mark.parametrize("study", STUDIES)
def test_plans_are_valid_and_every_cell_of_them_has_a_value_for_every_seed(study: str) -> None:
    one, plan = STUDIES[study], _plan(study)

    assert list(find_hypothesis_faults(plan)) == []
    assert [DatasetFacts.model_validate(facts).name for facts in one["facts"]] == [use.name for use in plan.datasets]
    owed = {
        (use.name, condition)
        for use in plan.datasets
        for condition in plan.conditions
        if plan.has_cell(use.name, parse_arm(condition), parse_level(condition))
    }
    assert {(dataset, condition) for dataset, cells in one["values"].items() for condition in cells} == owed
    assert all(
        set(cell) == {metric.name for metric in plan.metrics}
        and all(len(values) == len(one["seeds"]) for values in cell.values())
        for cells in one["values"].values()
        for cell in cells.values()
    )


NEW_VERDICTS = {"undecided": "open", **dict.fromkeys(("smaller", "negligible", "opposite"), "refuted")}
"""Verdicts of the recorded studies -> their present names."""


@pytest.mark.parametrize("study", STUDIES)
def test_verdicts_follow_from_the_arrays_with_and_without_correction(study: str) -> None:
    plan = _plan(study)
    confirmatory = sum(one.confirmatory for one in plan.hypotheses)

    for level in (SIGNIFICANCE_LEVEL, SIGNIFICANCE_LEVEL / confirmatory):
        found = {one.id: _verdict(study, plan, one, one.effects[0], level) for one in plan.hypotheses}
        assert found == {name: NEW_VERDICTS.get(word, word) for name, word in STUDIES[study]["verdicts"].items()}
    for one in plan.hypotheses:
        assert all(_verdict(study, plan, one, other, SIGNIFICANCE_LEVEL) == "supported" for other in one.alternatives)


def _verdict(study: str, plan: DataPlan, one: Hypothesis, effect: Effect, level: float) -> str:
    cells, metric = STUDIES[study]["values"], find_effect_metric(effect, plan)

    def at(seed: int, dataset: str = "") -> float:
        return evaluate_estimand(
            effect.estimand,
            plan,
            metric,
            lambda place: cells[place.dataset][f"{place.arm}@{place.level}" if place.level else place.arm][metric.name][
                seed
            ],
            dataset=dataset,
        )

    seeds = range(len(STUDIES[study]["seeds"]))
    values = (
        [fmean(at(seed, use.name) for seed in seeds) for use in plan.datasets]
        if one.unit == "datasets"
        else [at(seed) for seed in seeds]
    )
    half = compute_t_quantile(1 - level / 2, len(values) - 1) * stdev(values) / len(values) ** 0.5
    low, high = fmean(values) - half, fmean(values) + half
    return "supported" if low > effect.smallest else "refuted" if high < effect.smallest else "open"


def test_every_key_is_one_of_its_study() -> None:
    for name, study, which, text in _texts():
        for macro, key in MACRO.findall(text):
            assert _known(study, macro, key), f"{name} ({which}): \\{macro}{{{key}}}"
        assert which == "new" or "\\verdict" not in text, name


def _known(study: str, macro: str, key: str) -> bool:
    one, plan = STUDIES[study], _plan(study)
    if macro == "cite":
        return all(work in {known["key"] for known in one["works"]} for work in key.split(","))
    if macro == "setup":
        return key == "run.seeds"
    if macro == "verdict" and key.startswith("hypothesis/"):
        return key.removeprefix("hypothesis/") in {known.id for known in plan.hypotheses}
    if macro == "result":
        found = re.fullmatch(rf"(.+)\.(?:{FORMS})", key)
        key = found[1] if found else ""
    if macro not in ("result", "verdict") or key.count("/") != 3:
        return False
    first, dataset, metric, cell = key.split("/")
    pair = cell.split("~")
    roles = [next((arm.role for arm in plan.arms if arm.name == parse_arm(condition)), "") for condition in pair]
    return all(metric in one["values"].get(dataset, {}).get(condition, {}) for condition in pair) and (
        (first == "test" and len(pair) == 1 and macro == "result")
        or (
            first == "diff"
            and roles in (["method", "baseline"], ["ablation", "method"])
            and len({parse_level(condition) for condition in pair}) == 1
        )
    )


def test_numbers_are_never_typed_and_abstracts_have_80_to_200_words() -> None:
    for name, _, which, text in _texts():
        assert not re.search(r"\d", MACRO.sub("", text).replace("acro F1", "")), f"{name} ({which})"
        assert "[[" not in text and "]]" not in text
        if name.startswith("a"):
            assert 80 <= len(text.split()) <= 200, f"{name} ({which}): {len(text.split())}"


def test_honest_comparisons_have_the_macro_and_the_label_is_no_matter_of_having_it() -> None:
    with_macro = Counter(
        KEY[name]["label"] for name, _, which, text in _texts() if which == "new" and "\\verdict" in text
    )

    assert all(
        "\\verdict" in text
        for name, _, which, text in _texts()
        if which == "new" and name.startswith("a") and KEY[name]["label"] == "fine"
    )
    assert min(with_macro.values()) >= 30


@pytest.mark.slow
async def test_made_sentences_are_true_or_differ_from_the_record_in_one_field() -> None:
    record, evidence = build_run_record(RECORDED)
    assert record.estimates and all(f"estimate/{name}.mean" in evidence.results for name in record.estimates)
    cases = make_cases(record, 32, Random(1))
    assert Counter(one.kind for one in cases) == {"": 32, **dict.fromkeys(OVERCLAIMS, 4)}
    assert len({text for one in cases for text in one.parts.values()}) == 64
    with pytest.raises(ValueError, match="ask for fewer --cases"):
        make_cases(record, 5000, Random(1))
    keys = [key for one in cases for text in one.parts.values() for _, key in MACRO.findall(text)]
    assert keys and all(key in evidence.results for key in keys)
    log = MemoryLog()
    models = Models(open_backend(ModelSettings()), log, ModelSettings(), lambda: 0.0)
    found = summarise(cases, await find_refusals(models, record, evidence, cases))
    assert sum(isinstance(one, CallAnswered) for one in log.events) <= 4, (
        "a call reads as many sentences as a page of a paper has"
    )
    assert found["false_refusals"]["k"] == 0, found["refused"]
    assert found["recall"]["n"] == 32 and 0 < found["recall"]["k"] < 32, "it reads arms from numbers, not from words"
