"""The typed inputs and outputs of who gathers citations; `models/prompts/<role>.md` renders the inputs.

`cite_ask` reads the draft and asks for works, `cite_select` chooses among those that catalogues gave.
"""

from __future__ import annotations

from pydantic import Field

from models.roles import Reference
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from record.nouns.papers import Draft, FoundWork, Searched

MOST_QUERIES = 8


class CiteAskInputs(Frozen):
    """For role `cite_ask`; answers with `CiteQueries`."""

    idea: Idea
    draft: Draft
    references: tuple[Reference, ...] = Field(description="what may be cited already")
    before: tuple[Searched, ...] = Field(default=(), description="searches of earlier rounds")
    most: int = Field(ge=1, description="searches at most")


class CiteQuery(Frozen):
    """A work that is wanted."""

    sentence: str = Field(description="the sentence of the draft that needs support, exactly as it stands there")
    query: str = Field(description="what to search for: a few technical words, or the title of a known work")


class CiteQueries(Frozen):
    """What the draft's claims still need; nothing, where nothing is missing."""

    queries: tuple[CiteQuery, ...] = Field(default=(), max_length=MOST_QUERIES)


class CiteSelectInputs(Frozen):
    """For role `cite_select`; answers with `CiteSelection`."""

    idea: Idea
    searches: tuple[Searched, ...]
    works: tuple[FoundWork, ...]
    references: tuple[Reference, ...] = Field(description="what may be cited already")


class Chosen(Frozen):
    """A work that is to be cited."""

    number: int = Field(description="of the work")
    search: int = Field(ge=1, description="number of the search whose sentence it supports")
    reason: str = Field(min_length=1, description="what of its title or abstract supports the sentence")


class CiteSelection(Frozen):
    """The works that are worth citing; none, where none fits."""

    chosen: tuple[Chosen, ...] = ()
