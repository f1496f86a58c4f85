"""Programs of tests, as their files."""

from __future__ import annotations

from collections.abc import Mapping

from labwright.models.roles.coding import Program
from labwright.record.edits import File


def files(experiment: str, plots: str = "", **others: str) -> tuple[File, ...]:
    """Whole files of a program, that of its plots only where it has some. Others by the stem of their Python file."""
    texts = {"experiment.py": experiment, "plots.py": plots} | {f"{stem}.py": text for stem, text in others.items()}
    return whole({path: text for path, text in texts.items() if text or path == "experiment.py"})


def whole(texts: Mapping[str, str]) -> tuple[File, ...]:
    return tuple(File(path=path, text=text) for path, text in texts.items())


def tree(program: Program) -> dict[str, str]:
    """The files of a program that needs no parent."""
    return program.tree({})
