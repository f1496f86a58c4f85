r"""Check comparisons of arms that a writer words freely: each needs a `\verdict` in its sentence.

A sentence is a comparison if it names an arm (by name, title, or as the method or baseline), or continues a
sentence that does, and either uses a word that ranks by itself ("outperforms"), uses a weaker word ("lower",
"drops", "same") together with a metric or a printed value, or contrasts printed values of two arms. In a sentence
with a `\verdict`, these words must not claim more than the verdict, and no negation may precede it.

Exempt: questions, aims, expectations, results of others (with a citation), choices made by validation, and designs
(weaker words without an outcome). Limits: a comparison that is worded differently is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from labwright.record.claims.sentences import NULL_WORDS, SIGN_WORDS
from labwright.record.quantity_words import (
    BETTER_WORDS,
    COMPARING_PATTERN,
    EQUATING_PATTERN,
    RANKING_PATTERN,
    WEAK_COMPARATIVES,
    WORSE_WORDS,
)
from labwright.record.result_macros import ClaimKey, strip_form
from labwright.record.schema.data_plan import parse_arm
from labwright.review.evidence.latex_scanner import BLANK, CITE, KEY, MacroUse, ScannedText
from labwright.review.evidence.violations import Evidence

_SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bFig)[.!?](?=[\s}'\u2019)]|$)|\n[ \t]*\n", re.IGNORECASE
)
_COMPARING_WORDS = re.compile(
    r"\b(?:against|versus|vs|compared\s+(?:to|with)|relative\s+to|whereas|while|but|only|instead)\b"
)
_OUTCOME_WORDS = re.compile(
    r"\b(?:performance|accurac(?:y|ies)|errors?|scores?|results?|generali[sz]\w+|calibration|auroc|"
    r"auc|robustness|quality)\b"
)
_HYPOTHESIS_WORDS = re.compile(
    r"\b(?:hypothes[ei]s|claim|conjecture|prediction|expectation)\b.*\b(?:supported|confirmed|holds?|"
    r"borne\s+out|upheld|rejected|refuted|verified|validated|true|false|correct)\b"
)
_OPEN_QUESTION = re.compile(
    r"\?\s*$|\b(?:whether|hypothes\w+|conjectur\w+|(?<!as )expect\w*|predict(?:s|ed)?\s+that|we\s+ask|might|may|could|"
    r"would|should|aims?|intend\w*|designed|meant|suppose\w*|assum\w+|if|rival\s+explanation|smallest\s+effect|"
    r"no(?:thing|\s+\w+)\s+(?:is|are|may\s+be)\s+claimed)\b"
)
_SUPERLATIVE_CHOICE = re.compile(  # choices by validation and definitions of metrics
    r"\b(?:best|better|lowest|highest)\b(?=(?:\W+\w+){0,4}?\W+(?:dev|development|validation|checkpoints?|settings?|"
    r"trials?|epochs?|configurations?|hyper\w+|learning|level|values?|seeds?)\b)"
    r"|\b(?:lower|higher)\s+(?:values\s+)?(?:is|are)\s+better"
)
_PURPOSE_CLAUSE = re.compile(
    "".join(
        f"(?<!{word} )"
        for word in "found shown seems seem seemed appears appear appeared proved proven able tends tend "
        "observed known continues out managed measured".split()
    )
    + rf"\bto\s+(?:\w+ly\s+)?(?:{BETTER_WORDS}|{WORSE_WORDS}|{WEAK_COMPARATIVES})\b"
)
_PROCEDURE_CLAUSE = re.compile(
    r"\bwe\s+(?:(?:then|also)\s+)?(?:take|compute|measure|compare|study|examine|plot|define|calculate|estimate|"
    r"evaluate|call|tabulate|test|report)\b(?!\s+that)|\b(?:figure|table)\b[^.]{0,20}\b(?:shows?|gives?|plots?|"
    r"lists?)\s+(?!that)"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|nor|neither|cannot|hardly|scarcely|barely|false|untrue|wrong|incorrect|unlikely|doubt\w*|"
    r"den(?:y|ies|ied)|refut\w+|reject\w*|contrary|whether|unless|if|fail\w*)\b|n['\u2019]t\b"
)
_OUTRIGHT_DENIAL = re.compile(
    r"\b(?:false|untrue|incorrect|unlikely|doubt\w*|den(?:y|ies|ied)|refut\w+|reject\w*|contrary)\b"
)
_NEGATION_AFTER = re.compile(
    r"\s*,?\s*(?:which|this|that|and\s+(?:this|that))?\s*(?:(?:is|was|does|did|has|seems)\s+)?"
    r"(?:not|never|false|wrong|untrue|n['\u2019]t)\b"
)
_CONTINUATION = re.compile(
    r"^\W*(?:(?:but|and|yet|so)\s+)?(?:it|they|this|that|these|both|neither|its|their|the\s+"
    r"(?:former|latter|gap|gain|difference|effect))\b"
)
_GENERIC_ARM_NAMES = (
    r"(?:our|the|this|proposed|new)\s+(?:\w+\s+)?(?:method|approach|baselines?|remedy)|ours|ablations?|(?:both|"
    r"all|either|two|three|other|every|each|these|the)\s+(?:\w+\s+)?(?:arms?|conditions?|variants?|"
    r"optimi[sz]ers?)"
)
_COMMON_TITLE_WORDS = frozenset(
    "training network model models learning labels examples loss regression classifier layers".split()
)
"""Last words of titles that are too common to identify an arm."""
_SENTENCE_OPENING = re.compile(r"(?:item\b|(?:sub)*(?:paragraph|section)\b)?[\s}]*")
VERDICT_MARK = "\x03"
"""Placeholder for a verdict in a masked sentence."""


class UnboundComparison(NamedTuple):
    """A sentence that compares arms without a verdict: its start, its end, and the objection."""

    start: int
    end: int
    why: str


def find_unbound_comparisons(scanned: ScannedText, evidence: Evidence) -> Iterator[UnboundComparison]:
    """Return the comparisons that no verdict supports, in order of appearance."""
    if evidence.plan is None:
        return
    text, arms, metrics = _mask_verdicts(scanned), _compile_arm_names(evidence), _compile_metric_names(evidence)
    spoken, before = False, 0  # whether the previous sentence named an arm, and where it ended
    for start, end in find_sentence_spans(scanned):
        sentence = text[start:end]
        goes_on = spoken and "\n\n" not in re.sub(r"[ \t]", "", text[before:start]) and _CONTINUATION.match(sentence)
        spoken, before = bool(arms.search(sentence) or goes_on), end
        if " ".join(scanned.source[start:end].split()) in evidence.statements:
            continue
        here = [use for use in scanned.uses if start <= use.at < end]
        if why := _find_objection(arms.sub(" ARM ", sentence), here, evidence, metrics, about=spoken):
            yield UnboundComparison(start, end, why)


def find_sentence_spans(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Return the start and end of each sentence of the text."""
    text = _mask_verdicts(scanned)
    start = 0
    for match in [*_SENTENCE_END.finditer(text), None]:
        end = match.end() if match else len(text)
        if text[start:end].strip(" .\n\t"):
            begun = _SENTENCE_OPENING.match(scanned.source, start)
            yield begun.end() if begun else start, start + len(scanned.source[start:end].rstrip())
        start = end


def _find_objection(
    sentence: str, here: list[MacroUse], evidence: Evidence, metrics: re.Pattern[str], *, about: bool
) -> str:
    """Explain why a sentence is refused; return "" if it is allowed. Words in the names of arms are ignored."""
    verdicts = [evidence.outcome_words.get(strip_form(use.key), ()) for use in here if use.command == "verdict"]
    remaining = _SUPERLATIVE_CHOICE.sub("", sentence)
    if verdicts:
        return _check_words_around_verdicts([word for words in verdicts for word in words], remaining)
    keys = [key for use in here if use.command == "result" and (key := ClaimKey.parse_key(use.key))]
    paired = any(key.other for key in keys)
    about = about or len({parse_arm(key.condition) for key in keys}) > 1
    decided = None if re.search(r"\bwhether\b|\?\s*$", remaining) else _HYPOTHESIS_WORDS.search(remaining)
    is_claim = decided or ((about or paired) and not _OPEN_QUESTION.search(remaining))
    if CITE in sentence or not is_claim:
        return ""
    remaining = _PURPOSE_CLAUSE.sub("", remaining)
    outcome = bool(keys) or bool(metrics.search(remaining) or _OUTCOME_WORDS.search(remaining))
    weak = COMPARING_PATTERN.search(remaining) if outcome and not _PROCEDURE_CLAUSE.search(remaining) else None
    apart = _COMPARING_WORDS.search(remaining) if len({key.condition for key in keys}) > 1 else None
    if found := decided or RANKING_PATTERN.search(remaining) or EQUATING_PATTERN.search(remaining) or weak or apart:
        return (
            f"{' '.join(found[0].split())!r} compares arms without a verdict: use \\verdict{{key}} in this sentence, "
            "or remove the comparison"
        )
    return ""


def _check_words_around_verdicts(found: list[str], text: str) -> str:
    """Explain why the words around verdicts are refused; return "" if they are allowed."""
    before, _, _ = text.partition(VERDICT_MARK)
    last = re.split(r"[,;:]", before)[-1]  # text right before the clause; elsewhere only an explicit negation counts
    last = before if last.strip() == "that" else last
    if match := _NEGATION.search(last) if last.strip() else _OUTRIGHT_DENIAL.search(before):
        return f"{match[0]!r} precedes \\verdict: state the verdict without a negation or condition"
    if any(_NEGATION_AFTER.match(rest) for rest in text.split(VERDICT_MARK)[1:]):
        return "a negation follows \\verdict: state the verdict without a negation"
    if (match := RANKING_PATTERN.search(text)) and not SIGN_WORDS.intersection(found):
        return f"{match[0]!r} claims more than the verdict in this sentence ({', '.join(found)}): remove it"
    if (match := EQUATING_PATTERN.search(text)) and not NULL_WORDS.intersection(found):
        return f"{match[0]!r} contradicts the verdict in this sentence ({', '.join(found)}): remove it"
    return ""


def _mask_verdicts(scanned: ScannedText) -> str:
    """Return the text in lower case, at unchanged length, with a mark for each verdict.

    A list item starts a sentence.
    """
    text = list(scanned.plain)
    for match in re.finditer(r"\\item\b|\\(?:sub)*(?:paragraph|section)\b", scanned.source):
        text[match.start()] = "." if not match.start() or text[match.start() - 1] != "." else " "
    for use in scanned.uses:
        if use.command == "verdict":
            text[use.at] = VERDICT_MARK
    joined = "".join(text).translate({ord(mark): " " for mark in f"{BLANK}{KEY}~\\{{}}$"})
    lowered = joined.lower()
    return lowered if len(lowered) == len(joined) else joined


def _compile_arm_names(evidence: Evidence) -> re.Pattern[str]:
    """Match arms by name, by title, by an unambiguous last word of a title, and by generic names ("the method")."""
    assert evidence.plan is not None
    titles = [one.title.lower() for one in evidence.plan.arms]
    heads = [words[-1] for title in titles if (words := title.split()) and len(words[-1]) > 4]
    names = {text.lower() for one in evidence.plan.arms for text in (one.name, one.title) if len(text.strip()) > 1}
    names |= {head for head in heads if sum(head in title for title in titles) == 1 and head not in _COMMON_TITLE_WORDS}
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join([*map(_loosen_pattern, longest_first), _GENERIC_ARM_NAMES])})(?!\w)")


def _compile_metric_names(evidence: Evidence) -> re.Pattern[str]:
    assert evidence.plan is not None
    names = {text.lower() for one in evidence.plan.metrics for text in (one.name, one.title) if text.strip()}
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(_loosen_pattern, sorted(names)))})s?(?!\w)")


def _loosen_pattern(name: str) -> str:
    return r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", name.strip())))
