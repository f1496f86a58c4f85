"""What a paper is made of, before it is LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from literature.library import Entry
from record.nouns.drafts import Draft, PaperFinding
from review.evidence import Evidence


@dataclass(frozen=True)
class FigureFile:
    """A figure made from recorded arrays. `path` is the .pdf or .png; a twin with the other suffix may stand beside."""

    name: str
    path: Path
    panels: int = 0
    """Panels side by side; 0 takes the width from the picture's shape."""
    appendix: bool = False
    """Whether it stands in the appendix, where the program places it."""


@dataclass(frozen=True)
class Table:
    """A table that the program generated: its rows print `\\result` macros only."""

    name: str
    tabular: str
    caption: str


@dataclass(frozen=True)
class PaperParts:
    """A draft with all that it leans on.

    `appendix` is generated TeX; `notice` and `authors` are plain text and are escaped. `refused` stamps the pages.
    """

    draft: Draft
    evidence: Evidence
    figures: tuple[FigureFile, ...] = ()
    tables: tuple[Table, ...] = ()
    library: tuple[Entry, ...] = ()
    appendix: str = ""
    notice: str = ""
    authors: str = "scientist, a program"
    refused: bool = False


@dataclass(frozen=True)
class Sources:
    """The files of a paper by name, and what had to be changed to make them."""

    files: Mapping[str, str]
    figures: Mapping[str, Path]
    """File under figures/ -> where it is copied from."""
    findings: tuple[PaperFinding, ...]
    cited: tuple[str, ...]
    beside: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Pictures that the template itself shows, by name."""
