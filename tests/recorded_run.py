"""Unpack the zipped runs of `examples/` once per process, with the product's own function."""

from __future__ import annotations

from pathlib import Path

from labwright.record.zips import open_run_folder

EXAMPLES = Path(__file__).parents[1] / "examples"
RECORDED = EXAMPLES / "recorded-run.zip"
"""A finished run of the offline model with a node of every kind and its data."""
MODEL, SECOND = EXAMPLES / "early-stopping.zip", EXAMPLES / "noisy-labels.zip"
"""Runs by a language model, without their data and arrays."""


def recorded_run() -> Path:
    """Return the folder of the recorded run, which tests must not modify because it is shared."""
    return open_run_folder(RECORDED)
