"""What is read and looked up for an idea, and what comes of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.context import Digest
from record.ideation import FinalIdea, LiteratureSearch, Means
from record.nouns.frozen import Frozen


class ContextRead(Frozen):
    """The documents that the person gave were read and summarised."""

    type: Literal["context_read"] = "context_read"
    documents: tuple[Digest, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="what could not be read, and why, one line each")


class Ideating(Frozen):
    """Ideation on a topic began; its log is no run's."""

    type: Literal["ideating"] = "ideating"
    topic: str
    sha256: str = Field(description="of the topic's file")
    means: Means
    rounds: int = Field(description="reflections on an idea at most")
    version: str
    model: str


class LookedUp(Frozen):
    """The n-th query of decision k was made."""

    type: Literal["looked_up"] = "looked_up"
    k: int
    n: int
    search: LiteratureSearch


class Conceived(Frozen):
    """Decision k came to an idea, or to none since each draft repeated an earlier one."""

    type: Literal["conceived"] = "conceived"
    k: int
    idea: FinalIdea | None = None
    reason: str = Field(default="", description="why there is none")


IdeaEvent = ContextRead | Ideating | LookedUp | Conceived
"""Any of these."""
