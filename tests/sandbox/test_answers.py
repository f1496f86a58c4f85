"""Answers of language models are parsed if unambiguous, otherwise not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.llm_gateway import build_answer_parser

NAMES = ("cat", "dog", "very big dog")
FEELINGS = ("negative", "positive", "very positive")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("C", 2),
        ("(C)", 2),
        ("C.", 2),
        ("B) dog", 1),
        ("The answer is C.", 2),
        ("The correct answer is **B) A dog**", 1),
        ("**Answer:** C", 2),
        ("Because of its sides:\n\nC", 2),
        ("The answer is B, as I said.", 1),
        ("The answer is C because A square has four sides", 2),
        ("", None),
        ("E", None),
        ("A square has four sides.", None),
        ("A or B", None),
        ("(A) or (B)", None),
        ("A. B.", None),
        ("It is not A.", None),
        ("Neither A nor B", None),
        ("A is wrong.", None),
        ("The answer is A or B.", None),
        ("The answer is C. Wait, on second thought the right one is D.", None),
        ("Answer: A square has four sides", None),
        ("A. square, B. circle", None),
        ("B) or not, C)", None),
    ],
)
def test_a_letter_is_read_if_an_answer_says_it(text: str, value: int | None) -> None:
    assert build_answer_parser("letter", 4, "abcd")(text) == value


@pytest.mark.parametrize(
    ("text", "names", "value"),
    [
        ("dog", NAMES, 1),
        ("It is a cat", NAMES, 0),
        ("very positive", FEELINGS, 2),
        ("Sentiment: positive", FEELINGS, 1),
        ("Positive, since he laughs.", FEELINGS, 1),
        ("Answer: 2", (), 2),
        ("us", ("us", "US"), 0),
        ("a cat or a dog", NAMES, None),
        ("I have 2", NAMES, None),
        ("It is dog food", NAMES, None),
        ("This is no dog.", NAMES, None),
        ("non-positive", FEELINGS, None),
        ("positive: no", FEELINGS, None),
        ("not positive", FEELINGS, None),
        ("Us", ("us", "US", "them"), None),
    ],
)
def test_a_class_is_read_if_an_answer_says_it(text: str, names: tuple[str, ...], value: int | None) -> None:
    assert build_answer_parser("label", 3, names)(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("about 1,234.5 metres", 1234.5),
        ("-5", -5),
        ("It weighs 5 kg.", 5),
        ("The answer is 42. I used 3 steps.", 42),
        ("5 + 3 = 8\n#### 8", 8),
        (r"The answer is $\boxed{8}$.", 8),
        ("none", None),
        ("first 5, then 1.", None),
        ("1,2,3", None),
        ("3-5", None),
        ("2024-05-03", None),
        ("1.234,5", None),
    ],
)
def test_how_numbers_are_read(text: str, value: float | None) -> None:
    assert build_answer_parser("number", 0, ())(text) == value


@pytest.mark.parametrize(
    ("read", "text", "names", "value"),
    [
        ("number", "1", NAMES, 1),
        ("number", "1.5", NAMES, None),
        ("number", "4 stars", ("3", "4", "5"), 1),
        ("json:kind", 'So: {"kind": "dog", "why": "cat"}', NAMES, 1),
        ("json:kind", '{"kind": ["dog"]}', NAMES, None),
        ("json:kind", "[1]", NAMES, None),
        ("json:kind", '{"kind": "no dog"}', NAMES, None),
        ("json:n", '{"n": 2.5}', (), 2.5),
        ("json:n", '{"n": "2 or 3"}', (), None),
    ],
)
def test_classes_and_numbers_by_field(read: str, text: str, names: tuple[str, ...], value: float | None) -> None:
    assert build_answer_parser(read, 3 if names else 0, names)(text) == value


@pytest.mark.parametrize("read", ["", "verse", "json:", "label", "letter"])
def test_a_way_to_read_that_does_not_go_is_refused(read: str) -> None:
    with pytest.raises(SubmissionRefused, match="cannot be used with numbers"):
        build_answer_parser(read, 0, ())


@given(st.sampled_from(["label", "letter", "number", "json:a"]), st.integers(0, 5), st.text())
def test_any_answer_is_read_or_not_and_never_fails(read: str, classes: int, text: str) -> None:
    if classes or read in ("number", "json:a"):
        found = build_answer_parser(read, classes, NAMES[:classes])(text)
        assert found is None or not classes or found in range(classes)
