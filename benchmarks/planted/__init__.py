"""Planted programs and figures, a set in an archive: plain files whose header says what is wrong, or that nothing is.

A program begins with `# kind: NAME` and `# dishonest: WHY` or `# honest: WHY`; a plotting script with `# fault: KIND`
or `# good`, and `# seeds: N` where it draws an aggregate. Nobody tunes a check on `blind3`. How the sets came about:
docs/honesty.md, docs/paper.md. No longer here are `blind` and `blind2`, and of the figures `tuning` and `hard`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sets import read_set

FOLDER = Path(__file__).parent
SETS = ("tuned", "blind3")
FIGURES = FOLDER / "figures.tar.gz"


@dataclass(frozen=True)
class Program:
    """One experiment.py. `why` says what is dishonest about it, or why it is honest."""

    name: str
    kind: str
    honest: bool
    why: str
    source: str


@dataclass(frozen=True)
class Script:
    """A plotting script, and the kind of finding that it must lead to; none for a good figure."""

    name: str
    code: str
    kind: str = ""
    seeds: int = 0
    """Runs that an aggregate draws together; 0: a figure of one run."""


def programs(name: str) -> list[Program]:
    """The programs of a set, by file name. Raises `OSError`."""
    return [
        Program(stem, head["kind"], "honest" in head, head.get("honest") or head["dishonest"], text)
        for stem, head, text in _files(FOLDER / f"{name}.tar.gz")
    ]


def scripts() -> list[Script]:
    """The plotting scripts, by file name. Raises `OSError`."""
    return [
        Script(stem, text, head.get("fault", ""), int(head.get("seeds", 0))) for stem, head, text in _files(FIGURES)
    ]


def _files(archive: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    """Name, header and text of every file."""
    for name, content in read_set(archive).items():
        head, _, text = content.partition("\n\n")
        fields = (line.removeprefix("# ").partition(": ") for line in head.splitlines())
        yield name.removesuffix(".py"), {key: value for key, _, value in fields}, text
