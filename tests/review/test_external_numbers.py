"""Numbers as papers print them, and when a match says something."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers
from labwright.review.external_papers.verdicts import compute_match_chance, find_matches


def is_rounding_of(number: PrintedNumber, value: float) -> bool:
    return bool(find_matches(np.array([value]), number))


def one(text: str) -> PrintedNumber:
    found = extract_numbers(text)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("an accuracy of 0.871 in all", 0.871),
        ("BWT \u22124.0", -4.0),
        ("about 1,643 tokens", 1643),
        ("at 1e-4", 1e-4),
        ("10^7 rows", 1e7),
        (r"$3 \times 10^{-2}$ of it", 0.03),
        (r"$R^2=0.88$ there", 0.88),
    ],
)
def test_a_number_is_read_as_it_is_printed(text: str, value: float):
    assert one(text).value == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "see Table 2 and Figures 3 & 4",
        "as in [12, 13]",
        "Li et al. (2022)",
        "GPT-4",
        "F1 and L2 and top-5 and Recall@5",
        "p < 0.05",
        "a 95% confidence interval",
        "$$ a = 3.14 $$",
        "arXiv:2405.02360",
        "1. First we look",
        "$x_{12}^{34}$",
        "2025-05-11 05:37:09,426",
        "Conf \u201926, November 28\u201330, 2026, and on 3 May 2018",
    ],
)
def test_what_states_no_result_is_left_out(text: str):
    assert extract_numbers(text) == ()


def test_the_first_of_a_range_is_a_percentage_too():
    low, high = extract_numbers("by 65\u201390% in all")
    assert low.percent and high.percent


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("0.98", 0.98375, True),
        ("0.9837", 0.98375, True),
        ("0.9836", 0.98375, False),
        ("83.3%", 0.8333, True),
        ("37", 0.37, False),
        ("14.5", -14.5, True),
        ("-14.5", 14.5, False),
        ("-2940947910.5451", -2940947910.545059, True),
    ],
)
def test_a_rounding_or_a_percentage_agrees_and_a_printed_sign_counts(text: str, value: float, same: bool):
    assert is_rounding_of(extract_numbers(text, "cell")[0], value) is same


@given(st.floats(1e-3, 1e6), st.integers(0, 6))
def test_every_rounding_agrees_with_what_it_rounds(value: float, places: int):
    shown = f"{value:.{places}f}"
    assert is_rounding_of(extract_numbers(shown, "cell")[0], value)


def test_the_chance_is_counted_over_numbers_of_the_same_form():
    few, many = np.array([0.8333, 0.5]), np.arange(0.0, 1.0, 0.003)
    number = one("of 0.833 now")
    assert find_matches(few, number) == [0] and compute_match_chance(few, number) == 0.0
    assert compute_match_chance(many, number) == pytest.approx(1 / 3, abs=0.05)
