"""Role `setup_reader`: compare what a paper says about how its study was done with numbered facts of the record."""

from __future__ import annotations

from pydantic import Field

from labwright.models.roles.claim_reader import PrintedParagraph
from labwright.models.roles.role import Role
from labwright.record.schema.claims import ComparedSentence
from labwright.record.schema.frozen_model import FrozenModel


class SetupReaderInputs(FrozenModel):
    """The facts are numbered from 1; the code, if there is any, is the fact after the last."""

    facts: tuple[str, ...]
    code: str = Field(default="", description="main parts of the reported program")
    paragraphs: tuple[PrintedParagraph, ...]


class ComparedSentences(FrozenModel):
    """One entry for each numbered sentence."""

    sentences: tuple[ComparedSentence, ...]


SETUP_READER = Role(
    "setup_reader",
    SetupReaderInputs,
    ComparedSentences,
    temperature=0.0,
    max_tokens=16_384,
    prompt_tokens=20_000,
    typical_tokens=(5000, 1500),
)
