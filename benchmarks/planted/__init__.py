"""Planted programs and figures: plain files whose header says what is wrong with them, or that they are honest.

A program begins with `# kind: NAME` and `# dishonest: WHY` or `# honest: WHY`; a plotting script with `# fault: KIND` or
`# good`, and `# seeds: N` where it draws an aggregate. Nobody tunes a check on `blind` or `blind2`. How the sets came
about: docs/honesty.md, docs/figures.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
SETS = ("tuned", "blind", "blind2", "blind3")
FIGURE_SETS = ("tuning", "heldout", "hard")


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
    """The programs of a set, by file name."""
    return [Program(stem, head["kind"], "honest" in head, head.get("honest") or head["dishonest"], text)
            for stem, head, text in _files(FOLDER / name)]


def scripts(name: str) -> list[Script]:
    """The plotting scripts of a set, by file name."""
    return [Script(stem, text, head.get("fault", ""), int(head.get("seeds", 0)))
            for stem, head, text in _files(FOLDER / "figures" / name)]


def _files(folder: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    """Name, header and text of every file."""
    for path in sorted(folder.glob("*.py")):
        head, _, text = path.read_text().partition("\n\n")
        fields = (line.removeprefix("# ").partition(": ") for line in head.splitlines())
        yield path.stem, {key: value for key, _, value in fields}, text
