"""The headline of a conclusion, read by the blind claim reader (`models.roles.claim_reader`), which sees no result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.evals.replication.questions import ComparedMethod, KnownTruth, Outcome
from labwright.models.client import ModelClient
from labwright.models.roles.claim_reader import (
    CLAIM_READER,
    ClaimReaderInputs,
    ClaimVocabulary,
    PrintedParagraph,
    PrintedSentence,
    VocabularyName,
)
from labwright.record.schema.claims import ReadClaim, ReadSentence

MAX_SENTENCES = 40
"""Maximum number of sentences of a conclusion that are read."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n\s*\n")


async def read_headline(client: ModelClient, text: str, truth: KnownTruth) -> Outcome:
    """Return what a conclusion says about the question; open if it says nothing. Raises `ModelError`."""
    sentences = [" ".join(one.split()) for one in _SENTENCE_END.split(text.strip()) if one.split()][:MAX_SENTENCES]
    if not sentences:
        return "open"
    inputs = ClaimReaderInputs(
        vocabulary=ClaimVocabulary(
            arms=(("method", _name(truth.subject)), ("baseline", _name(truth.other))),
            datasets=(VocabularyName(name="population", title=truth.dataset),),
            metrics=(VocabularyName(name=truth.metric, title=truth.metric),),
        ),
        paragraphs=(
            PrintedParagraph(
                where="conclusion",
                sentences=tuple(PrintedSentence(number=at, text=one) for at, one in enumerate(sentences, 1)),
            ),
        ),
    )
    return decide_headline((await client.ask(CLAIM_READER, inputs)).sentences, truth)


def decide_headline(sentences: Sequence[ReadSentence], truth: KnownTruth) -> Outcome:
    """Return what the statements about the two methods that are shown or observed agree on; open if they do not.

    A difference that a text calls small, and no difference, are no difference.
    """
    claims = [one for each in sentences for one in each.claims if one.certainty in ("shown", "observed")]
    firm: set[Outcome] = {outcome for one in claims if (outcome := _decide(one, truth)) is not None}
    if len(firm) == 2 and "no difference" in firm and any(one.amount == "small" for one in claims):
        return "no difference"
    return firm.pop() if len(firm) == 1 else "open"


def _decide(claim: ReadClaim, truth: KnownTruth) -> Outcome | None:
    """Return what a claim says about subject and other; None if it is about something else."""
    names = (truth.subject.name, truth.other.name)
    pair = (claim.subject.partition("@")[0], claim.other.partition("@")[0])
    if pair not in (names, names[::-1], (names[0], ""), (names[1], "")) or claim.metric not in ("", truth.metric):
        return None
    if claim.kind == "no difference":
        return "no difference"
    if claim.kind not in ("direction", "size") or claim.direction == "none":
        return None
    sign = {"better": 1, "worse": -1, "higher": 1, "lower": -1}[claim.direction]
    sign *= -1 if claim.direction in ("higher", "lower") and not truth.higher_is_better else 1
    sign *= 1 if pair[0] == names[0] else -1
    if claim.denied:
        return "open"
    return "better" if sign > 0 else "worse"


def _name(method: ComparedMethod) -> VocabularyName:
    return VocabularyName(name=method.name, title=method.title, note=method.description)
