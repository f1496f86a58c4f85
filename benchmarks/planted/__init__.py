"""Planted programs and figures in an archive: plain files whose header states the fault, or that there is none.

A program begins with `# kind: NAME` and `# dishonest: WHY` or `# honest: WHY`; a plotting script with `# fault:
KIND` or `# good`. No check may be tuned on `blind3`. docs/honesty.md and docs/paper.md describe the origin of the sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sets import read_set

FOLDER = Path(__file__).parent
SETS = ("blind3",)
FIGURES = FOLDER / "figures.tar.gz"


@dataclass(frozen=True)
class Program:
    """An experiment.py. `why` says what is dishonest about it, or why it is honest."""

    name: str
    kind: str
    honest: bool
    why: str
    source: str


@dataclass(frozen=True)
class Script:
    """A plotting script, and the kind of finding that it must cause; none for a good figure."""

    name: str
    code: str
    kind: str = ""


def programs(name: str) -> list[Program]:
    """Return the programs of a set, by file name. Raises `OSError`."""
    return [
        Program(stem, head["kind"], "honest" in head, head.get("honest") or head["dishonest"], text)
        for stem, head, text in _files(FOLDER / f"{name}.tar.gz")
    ]


def scripts() -> list[Script]:
    """Return the plotting scripts, by file name. Raises `OSError`."""
    return [Script(stem, text, head.get("fault", "")) for stem, head, text in _files(FIGURES)]


def _files(archive: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield name, header and text of every file."""
    for name, content in read_set(archive).items():
        head, _, text = content.partition("\n\n")
        fields = (line.removeprefix("# ").partition(": ") for line in head.splitlines())
        yield name.removesuffix(".py"), {key: value for key, _, value in fields}, text
