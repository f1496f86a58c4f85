"""The form of an ablation, and when two are one and the same."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from labwright.record.baseline_check import Ablation, is_same_ablation


def ablation(name: str = "without-warm-up", part: str = "the warm-up", action: str = "remove", **more: Any) -> Ablation:
    return Ablation.model_validate(
        {"name": name, "part": part, "action": action, "metrics": ("accuracy",), "why": "The claim needs it.", **more}
    )


def test_replace_and_add_say_by_what() -> None:
    for action in ("replace", "add"):
        with pytest.raises(ValidationError, match=f"action '{action}' needs a replacement"):
            ablation(action=action, replacement="  ")
        assert ablation(action=action, replacement="noise").replacement == "noise"
    with pytest.raises(ValidationError, match="remove"):
        ablation(action="weaken")
    with pytest.raises(ValidationError):
        ablation(metrics=())
    with pytest.raises(ValidationError):
        ablation(name="without warm-up@n50")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ablation(), ablation("no-warmup", "warm up"), True),
        (ablation(), ablation("without-hinge", "Warm-ups"), True),
        (ablation(), ablation("sudden-start", "the warm-up", "replace", replacement="none"), False),
        (
            ablation("random-pairs", "the pairs", "replace", replacement="random pairs"),
            ablation("shuffled", "pairs", "replace", replacement="a random pair"),
            True,
        ),
        (
            ablation("random-pairs", "the pairs", "replace", replacement="random pairs"),
            ablation("shuffled", "pairs", "replace", replacement="constant pairs"),
            False,
        ),
        (ablation("without-temperature", "the temperature"), ablation("without-smoothing", "the smoothing"), False),
        (ablation("without-it", "a"), ablation("without-not", "b"), False),
    ],
)
def test_the_same_change_in_other_words_is_the_same(one: Ablation, other: Ablation, same: bool) -> None:
    assert is_same_ablation(one, other) == is_same_ablation(other, one) == same
