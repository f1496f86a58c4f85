"""The runs of `examples/`, which are zips, as folders: unpacked once in a process, by the product's own function."""

from __future__ import annotations

from pathlib import Path

from labwright.record.zips import open_run_folder

EXAMPLES = Path(__file__).parents[1] / "examples"
RECORDED = EXAMPLES / "recorded-run.zip"
"""A finished run of the offline model that has a node of every kind, with its data."""
MODEL = EXAMPLES / "model-run.zip"
"""A run by a language model, without its data and arrays."""


def recorded_run() -> Path:
    """The folder of the recorded run. Nothing may be changed in it: other tests read it, too."""
    return open_run_folder(RECORDED)
