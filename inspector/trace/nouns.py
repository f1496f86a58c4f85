"""What a trace says: what a printed number may be, where it is printed, and what is behind it."""

from __future__ import annotations

from typing import Literal

from record.nouns.frozen import Frozen


class Place(Frozen):
    """Where a number stands."""

    file: str
    line: int
    text: str


class FileOf(Frozen):
    """A file of the run, with its hash in the record; empty where the record has none. `same`: it still has it."""

    path: str
    sha256: str
    same: bool | None
    holds: str


class Origin(Frozen):
    """One node behind a number."""

    node: str
    seed: int
    value: float
    condition: str
    files: tuple[FileOf, ...] = ()


class Candidate(Frozen):
    """One thing that a printed number may be. `what` says which form of it has the number."""

    kind: Literal["claim", "setting", "value", "text"]
    key: str
    what: str
    printed: str
    grade: str = ""
    places: tuple[Place, ...] = ()
    """Empty: the record has it, the paper does not print it."""
    origins: tuple[Origin, ...] = ()
    data: tuple[str, ...] = ()
    code: tuple[Place, ...] = ()
    again: str = ""
    """The command that makes the value again; empty where nothing is computed."""


class Trace(Frozen):
    """What a number may be, what the paper prints first; `nearest` where it is nothing."""

    number: str
    candidates: tuple[Candidate, ...]
    nearest: tuple[str, ...] = ()
