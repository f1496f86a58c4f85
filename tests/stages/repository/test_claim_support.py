"""Numbers of a conclusion are bound to measurements; published numbers must be part of the question."""

from __future__ import annotations

import pytest

from labwright.evals.expbench.result_files import build_comparisons
from labwright.models.roles.questions import ConclusionAnswer, StatedDirection, StatedNumber
from labwright.stages.repository.question import find_unsupported

RESULTS = {
    "accuracy": {"plain": [0.66, 0.68, 0.67, 0.69, 0.65], "wide_net": [0.86, 0.88, 0.87, 0.89, 0.85]},
    "loss": {"plain": [0.95, 0.93, 0.94, 0.92, 0.96], "wide_net": [0.73, 0.75, 0.74, 0.72, 0.76]},
}
HIGHER = (StatedDirection(metric="accuracy", first="plain", second="wide_net", second_is="higher"),)


def number(text: str, what: str, arm: str = "wide_net", against: str = "", metric: str = "accuracy") -> StatedNumber:
    return StatedNumber.model_validate({"text": text, "what": what, "metric": metric, "arm": arm, "against": against})


def wrong(conclusion: str, *numbers: StatedNumber, told: str = "Is a wide net better?") -> list[str]:
    answer = ConclusionAnswer(conclusion=conclusion, numbers=numbers, directions=HIGHER)
    return list(find_unsupported(answer, told, RESULTS, build_comparisons([RESULTS])))


@pytest.mark.parametrize(
    ("conclusion", "numbers"),
    [
        ("The wide net reaches 0.87 over 5 seeds.", (number("0.87", "mean"),)),
        ("wide_net reaches 87 %, plain 67.0%.", (number("87 %", "mean"), number("67.0%", "mean", "plain"))),
        (
            "The wide net gains 0.20 over plain, 29.9 % of it, or a factor of 1.30.",
            (
                number("0.20", "difference", against="plain"),
                number("29.9 %", "percent", against="plain"),
                number("1.30", "ratio", against="plain"),
            ),
        ),
        ("With an sd of 0.0158 the wide net once had 0.89.", (number("0.0158", "sd"), number("0.89", "value"))),
        ("Over five seeds both arms agree.", ()),
    ],
)
def test_what_was_measured_is_stated(conclusion: str, numbers: tuple[StatedNumber, ...]) -> None:
    assert wrong(conclusion, *numbers) == []


@pytest.mark.parametrize(
    ("conclusion", "numbers", "words"),
    [
        ("The wide net is roughly 30 % better than the published 0.91 of Smith et al.", (), "30 % is neither listed"),
        (
            "The wide net is 30 % better than the published 0.91 of Smith et al.",
            (number("30 %", "percent", against="plain"), number("0.91", "value")),
            "0.91 is not the number",
        ),
        ("Others publish 0.95.", (number("0.95", "value", "plain", metric="loss"),), "does not name its arm"),
        ("The wide net has 0.78.", (number("0.78", "ratio", against="plain"),), "0.78 is not the number"),
        ("The wide net is twice as good.", (), "'twice': print numbers as digits"),
        ("The wide net is thirty percent better.", (), "'thirty': print numbers as digits"),
    ],
)
def test_what_was_not_measured_is_refused(conclusion: str, numbers: tuple[StatedNumber, ...], words: str) -> None:
    assert any(words in one for one in wrong(conclusion, *numbers))


def test_a_published_number_may_be_quoted_where_the_question_has_it() -> None:
    said = "The wide net reaches 0.87, below the published 0.91."
    assert wrong(said, number("0.87", "mean"), told="Smith et al. publish 0.91: does a wide net reach it?") == []
    assert wrong(said, number("0.87", "mean")) != []
