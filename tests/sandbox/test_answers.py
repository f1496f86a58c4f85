"""Answers of language models are parsed if unambiguous, otherwise not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.llm_gateway import TRUNCATION_MARK, build_answer_parser

NAMES = ("cat", "dog", "very big dog")
FEELINGS = ("negative", "positive", "very positive")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("C", 2),
        ("c", 2),
        ("(C)", 2),
        ("**C**", 2),
        ("C.", 2),
        (r"$\boxed{C}$", 2),
        ("B) dog", 1),
        ("B. a dog", 1),
        ("The answer is C.", 2),
        ("The answer is (B).", 1),
        ("The correct answer is **B) A dog**", 1),
        ("Answer: C", 2),
        ("**Answer:** C", 2),
        ("First, it is round.\nFinal answer: D", 3),
        ("Because of its sides:\n\nC", 2),
        ("C. A square has four sides.", 2),
        ("The answer is B, as I said.", 1),
        ("A is wrong. The answer is B.", 1),
        ("The answer is C because A square has four sides", 2),
        ("C. See why A is wrong.", 2),
    ],
)
def test_a_letter_that_an_answer_says_is_read(text: str, value: int) -> None:
    assert build_answer_parser("letter", 4, "abcd")(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Z",
        "E",
        "Because",
        "A square has four sides.",
        "I think so",
        "A or B",
        "A) or B)",
        "(A) or (B)",
        "A, B",
        "A. B.",
        "not A",
        "It is not A.",
        "The answer is not C.",
        "Neither A nor B",
        "(D) is wrong.",
        "A is wrong.",
        "Vitamin C helps",
        "The answer is A or B.",
        "The answer is C. No, the answer is D.",
        "The answer is C. Wait, on second thought the right one is D.",
        "Is it A?",
        "Answer: A square has four sides",
        "A. square\nB. circle\nThe best one is round",
        "A. square, B. circle",
        "The answer is A square",
        "B) or not, C)",
    ],
)
def test_a_letter_that_an_answer_does_not_say_is_not_read(text: str) -> None:
    assert build_answer_parser("letter", 4, "abcd")(text) is None


@pytest.mark.parametrize(
    ("text", "names", "value"),
    [
        ("dog", NAMES, 1),
        (" **Dog.**", NAMES, 1),
        ("It is a cat", NAMES, 0),
        ("It is a very big dog.", NAMES, 2),
        ("very positive", FEELINGS, 2),
        ("It is very positive.", FEELINGS, 2),
        ("Sentiment: positive", FEELINGS, 1),
        ("Label: positive\nReason: it is not negative", FEELINGS, 1),
        ("Positive, since he laughs.", FEELINGS, 1),
        ("2", NAMES, 2),
        ("Answer: 2", (), 2),
        ("3", ("3", "7", "9"), 0),
        ("us", ("us", "US"), 0),
        ("v1.0", ("v1", "v1.0"), 1),
    ],
)
def test_a_class_that_an_answer_says_is_read(text: str, names: tuple[str, ...], value: int) -> None:
    assert build_answer_parser("label", 3, names)(text) == value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a cat or a dog", NAMES),
        ("concatenate", NAMES),
        ("I have 2", NAMES),
        ("7", NAMES),
        ("It is dog food", NAMES),
        ("It is not a cat", NAMES),
        ("This is no dog.", NAMES),
        ("cat? No idea.", NAMES),
        ("non-positive", FEELINGS),
        ("It is positive about the negative ones", FEELINGS),
        ("positive: no", FEELINGS),
        ("1", ("3", "7", "9")),
        ("not positive", FEELINGS),
        ("I don't think it is positive", FEELINGS),
        ("Us", ("us", "US", "them")),
        ("", NAMES),
    ],
)
def test_a_class_that_an_answer_does_not_say_is_not_read(text: str, names: tuple[str, ...]) -> None:
    assert build_answer_parser("label", 3, names)(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("about 1,234.5 metres", 1234.5),
        ("1e3", 1000),
        ("-5", -5),
        ("\u22125", -5),
        ("It weighs 5 kg.", 5),
        ("$12.50", 12.5),
        ("The answer is 42. I used 3 steps.", 42),
        ("5 + 3 = 8. The answer is 8.", 8),
        ("5 + 3 = 8\n#### 8", 8),
        (r"So 5 + 3 is $\boxed{8}$", None),
        (r"The answer is $\boxed{8}$.", 8),
        ("8, and again 8", 8),
        ("none", None),
        ("1e400", None),
        ("first 5, then 1.", None),
        ("3,5", None),
        ("1,2,3", None),
        ("1/2", None),
        ("3-5", None),
        ("The answer is 3 or 4", None),
        ("2024-05-03", None),
        ("B2", None),
        ("1.234,5", None),
        ("The answer is 4" + TRUNCATION_MARK, None),
    ],
)
def test_how_numbers_are_read(text: str, value: float | None) -> None:
    assert build_answer_parser("number", 0, ())(text) == value


@pytest.mark.parametrize(
    ("read", "text", "names", "value"),
    [
        ("number", "1", NAMES, 1),
        ("number", "-1", NAMES, None),
        ("number", "1.5", NAMES, None),
        ("number", "3", NAMES, None),
        ("number", "4 stars", ("3", "4", "5"), 1),
        ("number", "1", ("3", "4", "5"), None),
        ("json:kind", 'So: {"kind": "dog", "why": "cat"}', NAMES, 1),
        ("json:kind", '{"kind": 2}', NAMES, 2),
        ("json:kind", '{"kind": ["dog"]}', NAMES, None),
        ("json:kind", "{" * 10**5, NAMES, None),
        ("json:kind", "[1]", NAMES, None),
        ("json:kind", '{"kind": "dog", "kind": "cat"}', NAMES, None),
        ("json:kind", '{"kind": "no dog"}', NAMES, None),
    ],
)
def test_classes_by_number_and_by_field(read: str, text: str, names: tuple[str, ...], value: float | None) -> None:
    assert build_answer_parser(read, 3, names)(text) == value


@pytest.mark.parametrize(("text", "value"), [('{"n": 2.5}', 2.5), ('{"n": null}', None), ('{"n": "2 or 3"}', None)])
def test_numbers_by_field(text: str, value: float | None) -> None:
    assert build_answer_parser("json:n", 0, ())(text) == value


@pytest.mark.parametrize("read", ["", "verse", "json:", "label", "letter"])
def test_a_way_to_read_that_does_not_go_is_refused(read: str) -> None:
    with pytest.raises(SubmissionRefused, match="cannot be used with numbers"):
        build_answer_parser(read, 0, ())


@given(st.sampled_from(["label", "letter", "number", "json:a"]), st.integers(0, 5), st.text())
def test_any_answer_is_read_or_not_and_never_fails(read: str, classes: int, text: str) -> None:
    if classes or read in ("number", "json:a"):
        found = build_answer_parser(read, classes, NAMES[:classes])(text)
        assert found is None or not classes or found in range(classes)
