"""Build the files of test programs."""

from __future__ import annotations

from collections.abc import Mapping

from labwright.models.roles.experiment_code import Program
from labwright.record.source_tree import WholeFile


def program_files(experiment: str, plots: str = "", **others: str) -> tuple[WholeFile, ...]:
    """Return the files of a program; plots.py only if given, other Python files by their stem."""
    texts = {"experiment.py": experiment, "plots.py": plots} | {f"{stem}.py": text for stem, text in others.items()}
    return whole_files({path: text for path, text in texts.items() if text or path == "experiment.py"})


def whole_files(texts: Mapping[str, str]) -> tuple[WholeFile, ...]:
    return tuple(WholeFile(path=path, text=text) for path, text in texts.items())


def program_tree(program: Program) -> dict[str, str]:
    """Return the files of a program without a parent."""
    return program.apply_to({})
