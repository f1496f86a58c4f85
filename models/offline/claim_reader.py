"""Roles `claim_reader` and `second_claim_reader` for the texts that the offline model writes.

Their outcomes print measured numbers, so arms, metric, data and levels come from the references of the numbers, and the
words need only give direction and verdict. Sentences without numbers are outcomes if they generalise.

Also the other roles that read: prior work, protocol, set-up, code and citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.models.roles.claim_reader import (
    ClaimReaderInputs,
    ClaimVocabulary,
    ComparedSentences,
    NumberReference,
    PrintedSentence,
    ReadSentences,
    SetupReaderInputs,
)
from labwright.models.roles.node_assessment import CodeReaderInputs, CodeReading
from labwright.models.roles.paper_revision import CiteAskInputs, CiteQueries, CiteSelectInputs, CiteSelection
from labwright.models.roles.study_plan import (
    PriorSearch,
    PriorSearchInputs,
    PriorWork,
    PriorWorkInputs,
    ProtocolReview,
    ProtocolReviewInputs,
)
from labwright.record.schema.claims import ClaimDirection, ComparedSentence, ReadClaim, ReadSentence, SentenceLabel
from labwright.record.schema.hypotheses import HypothesisVerdict

_GENERALISING = re.compile(
    r"\b(?:in general|always|never fails|proves|proven|universally|any dataset|all networks)\b", re.IGNORECASE
)
_DIRECTIONS: dict[ClaimDirection, re.Pattern[str]] = {
    "better": re.compile(r"\bbetter than\b"),
    "worse": re.compile(r"\bworse than\b"),
    "higher": re.compile(r"\b(?:higher than|raises|increases)\b"),
    "lower": re.compile(r"\b(?:lower than|lowers|reduces|decreases)\b"),
}
_OPEN = re.compile(r"\b(?:open|undecided|contains zero|includes zero)\b")
_VERDICTS: dict[str, HypothesisVerdict] = {"support": "supported", "refute": "refuted", "open": "open"}
_VERDICT = re.compile(r"\b(support|refute|open)(?:s|d|ed)?\b")
_QUESTION = re.compile(r"\?\s*$|\b(?:we ask|whether)\b", re.IGNORECASE)


def answer_claim_reader(inputs: ClaimReaderInputs) -> ReadSentences:
    """Label the numbered sentences."""
    return ReadSentences(
        sentences=tuple(
            _read_sentence(one, one.number, inputs.vocabulary)
            for part in inputs.paragraphs
            for one in part.sentences
            if one.number is not None
        )
    )


def _read_sentence(one: PrintedSentence, number: int, vocabulary: ClaimVocabulary) -> ReadSentence:
    claims = tuple(dict.fromkeys(_list_claims(one, vocabulary)))
    label: SentenceLabel = "setup"
    if claims:
        label = "outcome"
    elif "<cit.>" in one.text:
        label = "cited"
    elif _QUESTION.search(one.text):
        label = "question"
    return ReadSentence(number=number, label=label, quote=" ".join(one.text.split()[:4]), claims=claims)


def _list_claims(one: PrintedSentence, vocabulary: ClaimVocabulary) -> Iterator[ReadClaim]:
    if _GENERALISING.search(one.text):
        yield ReadClaim(kind="generality", certainty="shown")
    text = one.text.casefold()
    found = [key for key, words in _DIRECTIONS.items() if words.search(text)]
    ids = list(dict.fromkeys(each.hypothesis for each in one.references if each.hypothesis))
    words: list[HypothesisVerdict] = [_VERDICTS[match[1]] for match in _VERDICT.finditer(text)]
    for place, name in enumerate(ids):
        if words:
            yield ReadClaim(kind="registered", hypothesis=name, verdict=words[min(place, len(words) - 1)])
    is_open = bool(_OPEN.search(text))
    for each in one.references:
        subject, *others = _order_arms(each, text, vocabulary)
        fields = {"subject": subject, "metric": each.metric, "datasets": each.datasets, "levels": each.levels}
        if not others:
            yield ReadClaim.model_validate({"kind": "size", **fields})
        else:
            clear = each.kind == "difference" and len(found) == 1 and not is_open
            direction = found[0] if clear else "none"
            yield ReadClaim.model_validate({"kind": "size", **fields, "other": others[0], "direction": direction})


def _order_arms(one: NumberReference, text: str, vocabulary: ClaimVocabulary) -> list[str]:
    """Return the arms of a number in the order in which the text names them; those that it does not name come last."""
    titles = {each.name: (each.title.casefold(), each.name.casefold()) for _, each in vocabulary.arms}
    places = {
        arm: min((at for name in titles.get(arm, (arm,)) if (at := text.find(name)) >= 0), default=len(text))
        for arm in one.arms
    }
    return sorted(one.arms, key=places.__getitem__)


# --- the other roles that read: nothing is searched for, and no paper and no code is read ----------------------------


def answer_prior_search(inputs: PriorSearchInputs) -> PriorSearch:
    """Search for nothing: the study needs no network."""
    return PriorSearch()


def answer_prior_work(inputs: PriorWorkInputs) -> PriorWork:
    """Extract nothing: this model reads no paper."""
    return PriorWork()


def answer_protocol_review(inputs: ProtocolReviewInputs) -> ProtocolReview:
    """Find nothing: this model reads no plan."""
    return ProtocolReview()


def answer_setup_reader(inputs: SetupReaderInputs) -> ComparedSentences:
    """Find no fact for the numbered sentences: the set-up is written with macros of the record."""
    return ComparedSentences(
        sentences=tuple(
            ComparedSentence(number=one.number, verdict="not in the facts", quote=" ".join(one.text.split()[:4]))
            for part in inputs.paragraphs
            for one in part.sentences
            if one.number is not None
        )
    )


def answer_code_reader(inputs: CodeReaderInputs) -> CodeReading:
    """Return an empty reading, marked as unread."""
    return CodeReading(verdict="doubtful", unread=True)


def answer_cite_ask(inputs: CiteAskInputs) -> CiteQueries:
    """Ask for nothing: the study's papers cite only their own library."""
    return CiteQueries()


def answer_cite_select(inputs: CiteSelectInputs) -> CiteSelection:
    """Choose nothing: this model reads no abstract."""
    return CiteSelection()
