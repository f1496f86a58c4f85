"""What gathering citations leaves in the record: works that were found, and what they were taken for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.nouns.frozen import Frozen


class FoundWork(Frozen):
    """A work that a catalogue gave to a search, as `literature.works.Work` with a number of its own."""

    number: int = Field(ge=1, description="in its round, as prompts name it")
    source: str
    id: str
    title: str
    subtitle: str = ""
    authors: tuple[str, ...] = ()
    cut: bool = False
    years: tuple[int, ...] = ()
    venue: str = ""
    dois: tuple[str, ...] = ()
    arxiv: str = ""
    abstract: str = ""
    retracted: bool = False


class Searched(Frozen):
    """A sentence of the draft that wants support, and what was asked for it."""

    sentence: str
    query: str
    found: tuple[int, ...] = Field(default=(), description="numbers of works, the best first")
    outages: tuple[str, ...] = Field(default=(), description="catalogues that gave no answer, and why")


class Support(Frozen):
    """A verified work that was taken to support a sentence of the draft."""

    key: str = Field(description="of its entry in the run's library")
    sentence: str
    reason: str


class CheckedEntry(Frozen):
    """An entry of the library that the run was given, and what was found of it."""

    key: str
    outcome: Literal["verified", "refused", "unverified"]
    why: str = Field(default="", description="of one that may not be cited; of others empty")
