"""Roles `claim_reader` and `second_claim_reader`: label every sentence of a paper, without knowing its record."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel
from labwright.record.schema.claims import ComparedSentence, ReadSentence
from labwright.record.schema.data_plan import ArmRole


class VocabularyName(FrozenModel):
    """A name of the study, and how the text may call it."""

    name: str
    title: str
    note: str = Field(default="", description="what it is, in one line")


class ClaimVocabulary(FrozenModel):
    """The names of a study. Nothing in it says what was measured."""

    arms: tuple[tuple[ArmRole, VocabularyName], ...]
    levels: tuple[VocabularyName, ...] = ()
    factor: str = Field(default="", description="the quantity that the levels vary")
    datasets: tuple[VocabularyName, ...]
    metrics: tuple[VocabularyName, ...] = Field(description="the first is the primary metric")
    hypotheses: tuple[VocabularyName, ...] = Field(default=(), description="id, title and statement")
    confirmatory: tuple[str, ...] = Field(default=(), description="ids of the hypotheses that are not exploratory")
    points: tuple[tuple[str, str], ...] = Field(
        default=(), description="id and content of what the paper must say somewhere, in any words"
    )


class NumberReference(FrozenModel):
    """What a measured number in a sentence refers to."""

    key: str
    kind: Literal["value", "difference", "effect"]
    arms: tuple[str, ...]
    metric: str
    datasets: tuple[str, ...]
    levels: tuple[str, ...] = ()
    hypothesis: str = ""


class PrintedSentence(FrozenModel):
    """A sentence as readers see it. `number` is None if it is only context."""

    number: int | None
    text: str
    references: tuple[NumberReference, ...] = ()


class PrintedParagraph(FrozenModel):
    """Sentences of one paragraph in order, and the part of the paper to which they belong."""

    where: str
    sentences: tuple[PrintedSentence, ...]


class ClaimReaderInputs(FrozenModel):
    """For both roles, which see the printed text and the names of the study."""

    vocabulary: ClaimVocabulary
    paragraphs: tuple[PrintedParagraph, ...]


class ReadSentences(FrozenModel):
    """One entry for each numbered sentence."""

    sentences: tuple[ReadSentence, ...]


CLAIM_READER = Role(
    "claim_reader",
    ClaimReaderInputs,
    ReadSentences,
    temperature=0.0,
    max_tokens=16_384,
    prompt_tokens=20_000,
    typical_tokens=(5000, 3000),
)
SECOND_CLAIM_READER = Role(
    "second_claim_reader",
    ClaimReaderInputs,
    ReadSentences,
    temperature=0.7,
    max_tokens=16_384,
    prompt_tokens=20_000,
    typical_tokens=(3000, 1500),
)
"""The second reading, of title, abstract, conclusion and doubtful labels; give it another model if there is one."""


# Role `setup_reader`: compare what a paper says about how its study was done with numbered facts of the record.


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
