"""Claims: statistics against scipy, pairing by seed, what may be called improved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import (
    compute_t_interval,
    compute_test_claims,
    compute_validation_claims,
    find_replicates,
    has_same_values,
    is_seed_ignored,
)
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    SealedTestScored,
    StageWinnerChosen,
)
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Attempt
from tests.search.scripted_search import measure, new_log


def one(value: float, condition: str, seed: int, *, split: str = "test") -> Measurement:
    return measure(value, condition, seed=seed).model_copy(update={"split": split})


def add(log: MemoryLog, k: int, action: ExpandTree, values: dict[str, float] | None) -> str:
    node = f"n{k:04d}"
    log.append(DecisionMade(k=k, action=action))
    if values is None:
        log.append(NodeJudged(node=node, status="buggy"))
        return node
    validation = tuple(one(v + 1, c, action.seed, split="validation") for c, v in values.items())
    log.append(AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1, measurements=validation)))
    log.append(NodeJudged(node=node, status="good"))
    log.append(SealedTestScored(node=node, measurements=tuple(one(v, c, action.seed) for c, v in values.items())))
    return node


def recorded(method: list[float], baseline: list[float]) -> MemoryLog:
    log = new_log()
    best = add(log, 1, ExpandTree(stage="agenda", kind="improve", seed=0), {"method": -100.0, "baseline": 100.0})
    for i, (m, b) in enumerate(zip(method, baseline, strict=True)):
        action = ExpandTree(stage="agenda", kind="replicate", parent=best, seed=1 + i)
        add(log, 2 + i, action, {"method": m, "baseline": b})
    log.append(StageWinnerChosen(stage="agenda", best=best, ended="limit"))
    return log


def test_the_searched_seed_is_excluded_and_values_keep_their_seeds() -> None:
    log = recorded([0.3, 0.1, 0.2], [0.5, 0.4, 0.6])
    claims = {claim.key: claim for claim in compute_test_claims(log.state)}
    method = claims["test/digits/log_loss/method"]
    assert method.values == (0.3, 0.1, 0.2) and method.seeds == (1, 2, 3)
    assert method.nodes == ("n0002", "n0003", "n0004")
    assert method.mean == pytest.approx(0.2) and method.grade == "computed"
    assert [c.split for c in compute_validation_claims(log.state, "n0001")] == ["validation", "validation"]


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10))
def test_the_interval_is_student_t(values: list[float]) -> None:
    sd, low, high = compute_t_interval(values)
    if sd is None or low is None or high is None:
        assert len(set(values)) == 1
        return
    if sd > 1e-9:
        expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)  # pyrefly: ignore
        assert math.isclose(low, expected.low, rel_tol=1e-6, abs_tol=1e-6)  # pyrefly: ignore
        assert math.isclose(high, expected.high, rel_tol=1e-6, abs_tol=1e-6)  # pyrefly: ignore
    assert low <= sum(values) / len(values) + 1e-6


# --- code that ignores its seed -------------------------------------------------------------------------------------


def test_the_same_values_for_every_seed_are_no_noise_of_zero() -> None:
    log = recorded([0.3] * 5, [0.5] * 5)
    assert is_seed_ignored(log.state, "n0001")
    claims = compute_test_claims(log.state)
    assert all(one.n > 1 and (one.sd, one.low, one.high) == (None, None, None) for one in claims)
    [difference] = compute_differences(log.state, claims)
    assert difference.sd is None and not difference.excludes_zero
    texts = {key: value.tex for key, value in format_claims([*claims, difference]).items()}
    assert texts["test/digits/log_loss/method.pm"] == "0.300" and texts["test/digits/log_loss/method.n"] == "5"
    assert {text for key, text in texts.items() if key.endswith((".sd", ".ci", ".low", ".high"))} == {"n/a"}


def test_test_values_that_differ_clear_code_whose_validation_values_agreed_by_chance() -> None:
    log = recorded([0.3, 0.3], [0.5, 0.5])
    log.append(SealedTestScored(node="n0003", measurements=(one(0.31, "method", 2), one(0.5, "baseline", 2))))
    assert not is_seed_ignored(log.state, "n0001")
    assert has_same_values(find_replicates(log.state, "n0001")), "as the search saw it: validation alone"


@pytest.mark.parametrize(
    ("method", "baseline", "apart"),
    [
        ([0.1, 0.2, 0.1, 0.2, 0.15], [0.5, 0.6, 0.55, 0.6, 0.5], True),
        ([0.1, 0.6, 0.2, 0.7, 0.4], [0.4, 0.3, 0.3, 0.6, 0.4], False),
        ([0.1, 0.2, 0.1], [0.5, 0.6, 0.5], False),
        ([0.1] * 5, [0.5] * 5, False),
    ],
)
def test_an_interval_excludes_zero_only_where_seeds_differ(
    method: list[float], baseline: list[float], apart: bool
) -> None:
    log = recorded(method, baseline)
    found = compute_differences(log.state, compute_test_claims(log.state))
    assert [(d.key, d.excludes_zero) for d in found] == [("diff/digits/log_loss/method~baseline", apart)]
    if apart:
        assert found[0].better == "method" and found[0].mean < 0


def test_differences_are_paired_by_seed_when_a_replicate_failed() -> None:
    log = recorded([0.1, 0.2], [0.5, 0.7])
    add(log, 9, ExpandTree(stage="agenda", kind="replicate", parent="n0001", seed=3), None)
    claims = compute_test_claims(log.state)
    assert [claim.n for claim in claims] == [2, 2]
    assert len(find_replicates(log.state, "n0001")) == 3
    assert compute_differences(log.state, claims)[0].values == pytest.approx((-0.4, -0.5))


def test_an_interval_that_excludes_zero_does_not_print_as_if_it_ended_there() -> None:
    [known, _] = compute_test_claims(recorded([-0.010, -0.0190], [0.5, 0.6]).state)
    near = known.model_copy(update={"key": "k", "low": -0.0196, "high": -0.0002})
    assert format_claims([near])["k.ci"].tex == r"[\ensuremath{-}0.0196, \ensuremath{-}0.0002]"


def test_setups_come_from_code_and_data() -> None:
    log = recorded([0.1], [0.5])
    log.state.nodes["n0001"] = log.state.nodes["n0001"].model_copy(update={"setups": {"EPOCHS": 40}})
    found = {key: value.tex for key, value in format_setups(log.state).items()}
    assert found["code.EPOCHS"] == "40" and found["run.seeds"] == "1" and found["run.nodes"] == "1"
