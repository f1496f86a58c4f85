"""The documentation of `lab` in prompts matches the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import lab
import numpy as np
import pytest

from labwright.record.python_syntax import collect_constants
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.metrics import ECE_BINS, METRICS, MIN_PROBABILITY, compute_scores

REFERENCE = "".join((Path(KERNEL_SIDE) / "lab" / name).read_text() for name in ("REFERENCE.md", "SUBJECTS.md"))
FLAT = " ".join(REFERENCE.split())


def test_every_public_name_is_documented() -> None:
    public = set(lab.__all__) - {"LabError", "Dataset"}
    assert {name for name in public if f"`lab.{name}" not in REFERENCE} == set()
    assert set(re.findall(r"`lab\.(\w+)", REFERENCE)) <= public


def test_the_metrics_and_their_constants_are_those_of_the_scorer() -> None:
    assert f"clipped from below at {MIN_PROBABILITY:.0e}".replace("e-07", "e-7") in FLAT
    assert f"({ECE_BINS} equal-width bins" in FLAT
    assert [name for name in METRICS if name not in FLAT] == []
    truth = np.array([0, 1])
    classes = compute_scores("predictions", truth, truth)
    assert set(classes) == {"accuracy", "macro_f1"}
    assert set(compute_scores("logits", np.eye(2), truth)) - set(classes) == {"auroc", "log_loss", "ece", "brier"}
    assert compute_scores("probabilities", np.array([[0.0, 1.0], [1.0, 0.0]]), truth)["brier"] == 2.0
    assert set(compute_scores("predictions", np.array([0.5, 1.0]), np.array([0.5, 2.0]))) == {"mse", "mae", "r2"}


def test_what_is_positional_is_so() -> None:
    positional = [
        name
        for name, one in inspect.signature(lab.log).parameters.items()
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    assert f"Only {', '.join(f'`{name}`' for name in positional[:-1])}, `{positional[-1]}` may be positional" in FLAT
    assert inspect.signature(lab.log).parameters["split"].default == "train"
    assert inspect.signature(lab.result).parameters["split"].default == "validation"


@pytest.mark.parametrize(
    ("value", "recorded"),
    [("0.003", 0.003), ("'adam'", "adam"), ("(0.0, 0.1)", "0.0, 0.1"), ("2 ** 3", None), ("{'a': 1}", None)],
)
def test_constants_are_recorded_as_it_says(value: str, recorded: object) -> None:
    assert collect_constants(f"NAME = {value}\n").get("NAME") == recorded
    assert collect_constants(f"NAME: object = {value}\nlower = 1\n") == {}
    assert collect_constants(f"NAME = {value}\nNAME = {value}\n") == {}
