"""Compare typed claims with the record, by rule and without a model.

A claim about arms is a contrast of cells. Effects of hypotheses that estimate the same contrast decide about it;
otherwise every dataset and level for which it is made is looked up by itself. A claim that names no dataset or level
takes those of the numbers in its sentence, a level also of those around it; otherwise it must hold for all that were
registered or measured (in a section of pairs: at one level, and at none the opposite), and on every measured dataset,
unless its section title or the paragraph before it has named one, or the section below a heading.

- shown: a confirmed effect with that sign, or one that was not registered, in a part that calls it exploratory;
  observed: an interval with that sign; suggested, or said of "mean" values that the sentence prints: a mean with that
  sign; open: an interval that contains zero, or an undecided claim; conjectured: no interval with the other sign.
- no difference: a registered equivalence that holds, or values that are all equal; one that does not matter: an
  interval within the smallest effect that matters; suggested by a sentence that also leaves it open: one with zero.
- size: a number of the same comparison in the paragraph or abstract, and a mean with that sign. If the sentence prints
  a change along its levels, the sign is that of the change. Every number belongs to a claim of its sentence. An amount
  in words is compared with the smallest effect that matters.
- ratio, or "at least" and "at most" of a difference: its interval lies within the values that the words allow; one
  value ("half") lies in the interval, and the interval within a factor of `RATIO_TOLERANCE` of it. That a ratio is one
  value cannot be shown: equivalences are registered around zero only.
- two datasets: the value or difference on one minus that on the other, registered or over common seeds.
- trend: the last level minus the first, and means without a turn; without an arm, for every compared arm.
- cause: a supported hypothesis about it, or an estimate of an ablation; an ablation that nobody registered suggests it,
  and so does a requested estimate, or a number of an ablation, in its paragraph whose interval excludes zero.
- denied ("not better"): the interval ends below zero or below a difference that matters. That something is not the
  cause can only be conjectured, or suggested by such a number of an ablation.
- measured: the cells of these arms, datasets and levels exist; a count is that of the arms measured there.
- generality: a supported hypothesis whose unit is datasets, or a claim that holds on every named dataset and level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import inf
from typing import NamedTuple

from labwright.models.roles.claim_reader import NumberReference
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.result_macros import strip_form
from labwright.record.schema.claims import ReadClaim, SentenceReading
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.review.claims.comparisons import Cell, ClaimRecord, RecordedComparison, sum_cells
from labwright.review.claims.sentences import ABSTRACT, TITLE, PaperSentence, names_dataset
from labwright.review.evidence.violations import Violation

RATIO_TOLERANCE = 2.0
"""Factor by which the interval of a ratio may depart from the one value that the words give ("half", "as large as")."""
UNREAD = "no reader labelled this sentence: word it more plainly"
_SIGNS = {"better": 1, "higher": 1, "worse": -1, "lower": -1, "none": 0}


class RefusedClaim(Exception):
    """Raised when a claim does not match the record. The message says what the record has and what may be said."""


class UnknownName(RefusedClaim):
    """Raised when a claim names what the study does not have; a conjecture or an open question may do so."""


class Side(NamedTuple):
    """An arm, a level, or a condition; empty: not given."""

    arm: str = ""
    level: str = ""


class Surroundings(NamedTuple):
    """What stands around a sentence: the numbers of its paragraph or of the abstract, whether its section, caption or
    abstract says "exploratory", and whether the sentence, or the paragraph before it, names a dataset."""

    numbers: tuple[NumberReference, ...]
    is_exploratory: bool
    names_dataset: bool = True


@dataclass(frozen=True)
class ResolvedClaim:
    """A claim with names of the record. `datasets` and `levels` are empty if the sentence names none."""

    claim: ReadClaim
    subject: Side
    other: Side
    divisor: tuple[Side, Side]
    """The sides of the quantity by which a ratio divides."""
    metric: str
    is_reversed: bool
    """Whether lower values of the metric are better."""
    datasets: tuple[str, ...]
    levels: tuple[str, ...]
    other_dataset: str = ""
    """The dataset with which the one in `datasets` is compared."""

    @property
    def sign(self) -> int:
        """The sign of subject minus other that the claim asserts; 0: none."""
        sign = _SIGNS[self.claim.direction]
        judged = self.claim.direction in ("better", "worse")
        return -sign if judged and self.is_reversed else sign


def check_claims(
    sentences: Sequence[PaperSentence], readings: Mapping[str, SentenceReading], record: ClaimRecord
) -> tuple[tuple[PaperSentence, Violation], ...]:
    """Return the sentences that claim what the record does not have, or that nobody read, each with its violation."""
    found: list[tuple[PaperSentence, Violation]] = []
    for one in sentences:
        reading = readings.get(one.sha256)
        part = [each for each in sentences if each.where == one.where]
        headed = [each.text for each in sentences if one.where == f"title of {each.where}"]
        before = [each.text for each in part if each.paragraph == one.paragraph and each.start <= one.start]
        around = Surroundings(
            numbers=tuple(
                number
                for each in part
                if each.paragraph == one.paragraph or one.where == ABSTRACT
                for number in each.references
            ),
            is_exploratory=any("explorator" in each.text.casefold() for each in part),
            names_dataset=names_dataset(" ".join((one.where, *before, *headed)), record),
        )
        faults = [UNREAD] if reading is None else list(dict.fromkeys(_find_faults(one, reading, record, around)))
        if faults:
            violation = Violation(kind="claim", where=one.where, excerpt=one.source, fix="; ".join(faults))
            found.append((one, violation))
    return tuple(found)


def find_reported(
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    record: ClaimRecord,
    place: str = "section",
) -> frozenset[str]:
    """Return the ids of the hypotheses whose outcome the abstract or any section reports."""
    return frozenset(
        one.hypothesis.id
        for sentence in sentences
        if sentence.where.partition(" ")[0] == place and (reading := readings.get(sentence.sha256)) is not None
        for claim in reading.claims
        for one in _list_outcomes(claim, sentence, record)
        if one is not None
    )


def find_unreported(
    sentences: Sequence[PaperSentence], readings: Mapping[str, SentenceReading], record: ClaimRecord
) -> tuple[str, ...]:
    """Return what the text does not report, one line each: the outcome of a confirmatory hypothesis in the abstract or
    in any section, and that comparisons of a section are exploratory."""
    lines = [
        f"{place} does not report the outcome of hypothesis {one.hypothesis.id} ({one.verdict}): add a sentence"
        for one in record.decisions
        if one.hypothesis.confirmatory
        for place, part in (("the abstract", ABSTRACT), ("any section", "section"))
        if one.hypothesis.id not in find_reported(sentences, readings, record, part)
    ]
    exploratory = dict.fromkeys(
        sentence.where
        for sentence in sentences
        if sentence.where.startswith("section ") and (reading := readings.get(sentence.sha256)) is not None
        if any(_is_exploratory(claim, sentence, record) for claim in reading.claims)
    )
    for where in exploratory:
        if not any("explorator" in one.text.casefold() for one in sentences if one.where == where):
            lines.append(f"{where} reports comparisons that were not registered: call them exploratory once")
    return tuple(lines)


def _list_outcomes(
    claim: ReadClaim, sentence: PaperSentence, record: ClaimRecord
) -> tuple[HypothesisDecision | None, ...]:
    """Return the decisions that a claim reports, and None for what nobody registered and no number of a hypothesis
    supports; empty for a claim that the record does not have. A comparison with a reference model, which every paper
    has to report, is left out."""
    with suppress(RefusedClaim):
        if claim.kind == "registered":
            decision = _find_decision(claim, sentence, record)
            return (decision,) if claim.verdict == decision.verdict else ()
        if claim.kind in ("direction", "no difference", "size", "ratio", "trend"):
            resolved = resolve_claim(claim, sentence.references, record)
            if resolved.subject.arm and (resolved.other != Side() or claim.kind == "ratio"):
                find = _find_ratios if claim.kind == "ratio" else _find_comparisons
                printed = any(one.hypothesis and _covers(resolved, one, record) for one in sentence.references)
                found = find(resolved, record)
                return tuple(
                    one.decision if one.source == "effect" else None
                    for one in found
                    if one.source == "effect"
                    or not (printed or any(arm in REFERENCE_ARM_TITLES for _, arm, _ in one.contrast))
                )
    return ()


def _is_exploratory(claim: ReadClaim, sentence: PaperSentence, record: ClaimRecord) -> bool:
    """Return whether a claim reports a comparison of no confirmatory hypothesis, or for a part of it none."""
    outcomes = _list_outcomes(claim, sentence, record) if claim.certainty not in ("open", "conjectured") else ()
    return any(one is None or not one.hypothesis.confirmatory for one in outcomes)


def _find_faults(
    sentence: PaperSentence, reading: SentenceReading, record: ClaimRecord, around: Surroundings
) -> Iterator[str]:
    resolved: list[ResolvedClaim] = []
    for claim in reading.claims:
        opened = claim.model_copy(update={"certainty": "open"})
        if (claim.kind, claim.certainty) == ("no difference", "suggested") and opened in reading.claims:
            continue  # "about as often, but this does not show that they are equal"
        try:
            if claim.kind != "registered":
                resolved.append(resolve_claim(claim, sentence.references, record, around.numbers))
            _check_claim(claim, sentence, record, around)
        except RefusedClaim as refusal:
            if not isinstance(refusal, UnknownName) or claim.certainty not in ("open", "conjectured"):
                yield f"read as {describe_claim(claim)}; {refusal}"
    if sentence.where in (TITLE, ABSTRACT) and not around.is_exploratory:
        new = [claim for claim in reading.claims if _is_exploratory(claim, sentence, record)]
        if new:
            yield f"read as {describe_claim(new[0])}; it was not registered: call it exploratory, or leave it out"
    ids = {one.hypothesis for one in reading.claims if one.kind == "registered"}
    for one in sentence.references if "outcome" in reading.labels else ():
        if one.hypothesis not in ids - {""} and not any(_covers(each, one, record) for each in resolved):
            about = ", ".join((" and ".join(one.arms), one.metric, *one.datasets, *one.levels))
            yield (
                f"the number \\result{{{one.key}}} ({about}) belongs to no comparison of this sentence: name what it "
                "measures, or print the number of the comparison"
            )


def _check_claim(claim: ReadClaim, sentence: PaperSentence, record: ClaimRecord, around: Surroundings) -> None:
    """Raise `RefusedClaim` if the record does not have what a claim says."""
    if claim.kind == "ambiguous":
        raise RefusedClaim(
            "it can be read in several ways: name what is compared, the metric, the data and the direction"
        )
    if claim.kind == "registered":
        return _check_registered(claim, sentence, record, around)
    resolved = resolve_claim(claim, sentence.references, record, around.numbers)
    if claim.kind == "direction" and claim.certainty == "observed" and _compares_means(resolved, sentence, record):
        claim = claim.model_copy(update={"certainty": "suggested"})
        resolved = replace(resolved, claim=claim)
    if claim.kind == "measured":
        return _check_measured(resolved, record)
    if claim.kind == "cause":
        return _check_cause(resolved, around.numbers, record)
    if claim.kind == "generality":
        return _check_generality(resolved, record)
    if claim.kind == "size" and (not claim.is_bounded or Side() in (resolved.subject, resolved.other)):
        return _check_size(resolved, sentence, around.numbers, record)
    if claim.kind == "ratio" and not claim.is_bounded:
        arms = {side.arm for side in (resolved.subject, resolved.other, *resolved.divisor) if side.arm}
        near = (one for one in around.numbers if one.kind == "effect" and arms <= {*one.arms})
        if claim.certainty == "open" or any(_covers(resolved, one, record) for one in near):
            return None
        raise RefusedClaim("the paragraph has no number of this ratio: print a listed estimate of it")
    if claim.kind == "trend" and resolved.subject == resolved.other:
        for arm in record.plan.compared_arms:
            _check_claim(
                claim.model_copy(update={"subject": arm, "other": "", "count": None}), sentence, record, around
            )
        return None
    if claim.count is not None and resolved.subject == Side() and resolved.other.arm:  # "three of the four arms beat A"
        others = [arm for arm in record.plan.compared_arms if arm != resolved.other.arm]
        each = [_find_comparisons(replace(resolved, subject=Side(arm)), record) for arm in others]
        return _check_count(resolved, [one for found in each for one in found])
    found = (_find_ratios if claim.kind == "ratio" else _find_comparisons)(resolved, record)
    if claim.count is not None:
        return _check_count(resolved, found)
    observed = replace(resolved, claim=claim.model_copy(update={"certainty": "observed"}))
    if claim.kind == "direction" and not (resolved.levels or claim.denied or sentence.where in (TITLE, ABSTRACT)):
        seen = {dataset for one in found if one.sign == resolved.sign != 0 for dataset in _list_datasets(one)}
        found = [one for one in found if one.sign or one.source != "pair" or seen.isdisjoint(_list_datasets(one))]
    for one in found:
        confirmatory = one.is_registered and one.source in ("effect", "rival")
        softened = claim.certainty == "shown" and around.is_exploratory and not confirmatory
        is_absence = claim.kind == "no difference" or (
            (claim.kind == "trend" or claim.denied) and not (resolved.sign or claim.is_bounded)
        )
        (_check_absence if is_absence else _check_direction)(observed if softened else resolved, one)
        is_general = not (resolved.datasets or around.names_dataset or is_absence)
        for other in _find_elsewhere(one, record) if is_general else ():
            try:
                _check_direction(observed if claim.certainty == "shown" else resolved, other)
            except RefusedClaim as refusal:
                raise RefusedClaim(f"{refusal}; or name the dataset for which it holds") from None
    turns = claim.kind == "trend" and resolved.sign and not (claim.denied or resolved.other_dataset)
    return _check_turns(resolved, record) if turns else None


def _compares_means(one: ResolvedClaim, sentence: PaperSentence, record: ClaimRecord) -> bool:
    """Return whether a sentence says "mean", a word that no name has ("mean squared error"), and prints the values of
    both arms."""
    names = (record.plan.name_metric(one.metric), *map(record.name_arm, record.arms))
    values = [each for each in sentence.references if each.kind == "value" and _covers(one, each, record)]
    printed = {arm for each in values for arm in each.arms}
    said, *named = (re.search(r"\bmean\b", text, re.IGNORECASE) for text in (sentence.text, *names))
    return said is not None and not any(named) and {one.subject.arm, one.other.arm} <= printed


# --- names ------------------------------------------------------------------------------------------------------------


def resolve_claim(
    claim: ReadClaim, references: Sequence[NumberReference], record: ClaimRecord, around: Sequence[NumberReference] = ()
) -> ResolvedClaim:
    """Return a claim with the names of the record; what it leaves out comes from the numbers of its sentence, a level
    also from those around it if they agree.

    Raises `RefusedClaim` for a name that the study does not have.
    """
    plan = record.plan
    subject, other = _resolve_side(claim.subject, record), _resolve_side(claim.other, record)
    named = [one for one in (subject, other) if one.arm]
    near = [one for one in references if all(each.arm in one.arms for each in named)] or list(references)
    if len(pairs := {one.arms for one in near if one.kind != "value" and len(one.arms) == 2}) == 1:
        (pair,) = pairs
        if not named and subject == other == Side() and claim.kind != "cause":
            subject, other = (Side(arm) for arm in pair)
        elif subject.arm in pair and other == Side() and claim.kind != "ratio" and not claim.other_dataset:
            other = Side(next(arm for arm in pair if arm != subject.arm))
    alone = claim.other_dataset and not claim.other  # a value on two datasets
    if subject.arm and other == Side() and claim.kind in ("direction", "no difference") and not alone:
        other = Side(_find_partner(subject.arm, record))
    metrics = {one.metric for one in near}
    metric = _find_name(claim.metric, {name: plan.name_metric(name) for name in record.metrics}, "metric")
    metric = metric or (next(iter(metrics)) if len(metrics) == 1 else plan.primary_metric.name)
    spec = record.metrics.get(metric)
    if spec is None and claim.direction in ("better", "worse"):
        raise RefusedClaim(f"whether more of {metric!r} is better is not registered: say higher or lower")
    near = [one for one in near if one.metric == metric]
    titles = {one.name: plan.name_dataset(one.name) for one in plan.datasets}
    against = _find_name(claim.other_dataset, titles, "dataset")
    datasets = [_find_name(one, titles, "dataset") for one in claim.datasets]
    datasets = [*filter(None, datasets)] or list(dict.fromkeys(name for one in near for name in one.datasets))
    levels = {name for one in claim.levels for name in _resolve_level(one, record)}
    if not levels and claim.kind != "trend":
        levels = {name for one in near for name in one.levels}
        known = {one.levels for one in around if named and all(each.arm in one.arms for each in named)}
        levels = levels or (set(next(iter(known))) if len(known) == 1 and claim.kind != "ratio" else set())
    return ResolvedClaim(
        claim=claim,
        subject=subject,
        other=other,
        divisor=(_resolve_side(claim.of_subject, record), _resolve_side(claim.of_other, record)),
        metric=metric,
        is_reversed=spec is not None and not spec.higher_is_better,
        datasets=tuple(name for name in datasets if name != against),
        levels=tuple(name for name in plan.level_names if name in levels),
        other_dataset=against,
    )


def _resolve_side(name: str, record: ClaimRecord) -> Side:
    if not name.strip():
        return Side()
    arms = {one: record.name_arm(one) for one in record.arms}
    known = {_simplify(text): one for one, title in arms.items() for text in (title, one)}
    if (found := known.get(_simplify(name))) is not None:
        return Side(found)
    if "@" in name and (found := known.get(_simplify(parse_arm(name)))) is not None:
        return Side(found, _resolve_one_level(parse_level(name), record))
    return Side(level=_resolve_one_level(name, record, what="arm or level"))


def _resolve_one_level(name: str, record: ClaimRecord, what: str = "level") -> str:
    found = _resolve_level(name, record, what)
    if len(found) != 1:
        raise RefusedClaim(f"{name!r} stands for {len(found)} combinations of levels: name one of them")
    return found[0]


def _resolve_level(name: str, record: ClaimRecord, what: str = "level") -> tuple[str, ...]:
    """Return the levels that a name stands for: one, or with crossed factors all that contain it."""
    plan = record.plan
    known: dict[str, str] = {}
    for one in plan.all_levels:
        texts = {one.name, plan.name_level(one.name)}
        texts |= {f"{one.value:g}", f"{100 * one.value:g}%"} if one.value is not None else set()
        known |= {_simplify(text): one.name for text in texts}
    found = _find_name(name, known, what, simplified=True)
    crossed = tuple(one.name for one in plan.levels if found in one.parts)
    return crossed or (found,)


def _find_name(name: str, known: Mapping[str, str], what: str, *, simplified: bool = False) -> str:
    """Return the name of the record for a name or title; "" for an empty one. Raises `RefusedClaim`."""
    texts = known if simplified else {_simplify(text): key for key, title in known.items() for text in (title, key)}
    if name.strip() and _simplify(name) not in texts:
        raise UnknownName(f"this study has no {what} {name!r}")
    return texts.get(_simplify(name), "")


def _simplify(text: str) -> str:
    return re.sub(r"[^\w.%+-]|_", "", text.casefold())


def _find_partner(arm: str, record: ClaimRecord) -> str:
    """Return the arm with which an arm is compared if the text does not say: the only other one of a registered effect,
    the baseline of a method, or the first method of an ablation or baseline."""
    effects = [
        {cell[1] for cell in one.contrast} for one in record.registered if one.source == "effect" and not one.divisor
    ]
    partners = {name for arms in effects if arm in arms and len(arms) == 2 for name in arms - {arm}}
    if len(partners) == 1:
        return partners.pop()
    wanted = "baseline" if record.roles[arm] == "method" else "method"
    found = [one.name for one in record.plan.arms if one.role == wanted]
    if len(found) != 1:
        raise RefusedClaim(f"it does not say with what {arm} is compared: name the other arm")
    return found[0]


# --- comparisons ------------------------------------------------------------------------------------------------------


def _find_comparisons(one: ResolvedClaim, record: ClaimRecord) -> list[RecordedComparison]:
    """Return what the record has about a claim on arms or levels: the effects of hypotheses if there are any, otherwise
    other registered comparisons, otherwise pairs. Raises `RefusedClaim` if there is nothing."""
    if one.subject == one.other:
        raise RefusedClaim("it does not say what is compared: name both sides")
    registered = [] if one.other_dataset or one.claim.count is not None else list(_find_registered(one, record))
    if registered:
        effects = [each for each in registered if each.source == "effect"] or registered
        absent = [each for each in effects if each.part is not None and each.part.effect.claim == "within"]
        present = [each for each in effects if each not in absent]
        return (absent if one.claim.kind == "no difference" else present) or effects
    is_trend = one.claim.kind == "trend"
    datasets = one.datasets or tuple(use.name for use in record.plan.datasets)
    levels = one.levels or record.plan.level_names
    spans = [levels] if is_trend else [(name,) for name in levels]
    found: dict[tuple[str, int], RecordedComparison] = {}
    missing: list[str] = []
    covered: set[str] = set()
    for dataset, places in product(one.datasets if one.other_dataset else datasets, spans):
        build = _compare_datasets if one.other_dataset else _build_contrasts
        for contrast in filter(None, build(one, (dataset,), places, record)):
            known = record.find_all(contrast, one.metric)
            found |= {(each.key, each.sign): each for each in known}
            covered |= {dataset} if known else set()
            missing += [] if known else [f"{', '.join(places)} on {dataset}".removeprefix(" on ")]
            if is_trend and (known or not one.other_dataset):
                break  # the last level minus the first
    if one.other_dataset:
        if not found:
            raise RefusedClaim("the record has no measurement of it on two datasets: name both, and what is compared")
        return [each for each in found.values() if each.decision is not None] or list(found.values())
    by_reference = not {one.subject.arm, one.other.arm}.isdisjoint(REFERENCE_ARM_TITLES)  # with what was measured
    incomplete = (missing and one.levels) or not covered.issuperset(one.datasets)
    if not found or (incomplete and not by_reference):
        raise RefusedClaim(f"the record has no measurement of it ({'; '.join(missing) or 'no such comparison'})")
    return list(found.values())


def _compare_datasets(
    one: ResolvedClaim, datasets: tuple[str, ...], places: tuple[str, ...], record: ClaimRecord
) -> Iterator[dict[Cell, float]]:
    """Yield a value or difference on a dataset minus the same on the one that the claim compares with."""
    here, there = (
        [{(place, one.subject.arm, one.subject.level or places[0]): 1.0}]
        if one.other == Side() and one.subject.arm and one.claim.kind != "trend"
        else list(_build_contrasts(one, (place,), places, record))
        for place in (*datasets, one.other_dataset)
    )
    for first, second in zip(here, there, strict=True):
        yield sum_cells((sign * each[cell], cell) for sign, each in ((1, first), (-1, second)) for cell in each)


def _list_datasets(found: RecordedComparison) -> set[str]:
    return {dataset for dataset, _, _ in found.contrast}


def _find_elsewhere(found: RecordedComparison, record: ClaimRecord) -> Iterator[RecordedComparison]:
    """Yield the same contrast on each other dataset on which it was measured."""
    read = _list_datasets(found)
    for use in record.plan.datasets if len(read) == 1 and found.divisor is None else ():
        if use.name not in read:
            contrast = {(use.name, arm, level): weight for (_, arm, level), weight in found.contrast.items()}
            yield from record.find_all(contrast, found.metric)


def _find_registered(one: ResolvedClaim, record: ClaimRecord) -> Iterator[RecordedComparison]:
    """Yield the registered comparisons of the same sides, on the named datasets and levels, or on their own."""
    free = one.claim.kind == "trend" or bool(one.subject.level or one.other.level)
    for known in record.registered:
        datasets, levels = ({cell[k] for cell in known.contrast} for k in (0, 2))
        if (
            known.metric != one.metric
            or known.divisor is not None
            or (one.datasets and set(one.datasets) != datasets)
            or (one.levels and not free and set(one.levels) != levels)
        ):
            continue
        ordered = tuple(name for name in record.plan.level_names if name in levels)
        for contrast in _build_contrasts(one, tuple(sorted(datasets)), ordered, record):
            if (sign := record.find_sign(known, contrast)) != 0:
                yield known if sign > 0 else known.flip()
                break


def _build_contrasts(
    one: ResolvedClaim, datasets: tuple[str, ...], levels: tuple[str, ...], record: ClaimRecord
) -> Iterator[dict[Cell, float]]:
    """Yield subject minus other, averaged over datasets and levels; for a trend, the change along the levels."""
    subject, other = one.subject, one.other
    if one.claim.kind == "trend":
        if len(levels) > 1:
            yield from _build_trends(subject, other, datasets, levels, record)
    elif subject.level or other.level:
        for arm in [subject.arm or other.arm] if subject.arm or other.arm else record.plan.compared_arms:
            across = subject.arm and other.arm and subject.arm != other.arm
            first, second = (
                Side(side.arm or arm, side.level or (twin.level if across else "") or levels[0])
                for side, twin in ((subject, other), (other, subject))
            )
            yield sum_cells(
                (sign / len(datasets), (dataset, side.arm, side.level))
                for dataset in datasets
                for sign, side in ((1, first), (-1, second))
            )
    elif subject.arm and other.arm:
        share = len(datasets) * len(levels)
        yield sum_cells(
            (sign / share, (dataset, arm, level))
            for dataset, level in product(datasets, levels)
            for sign, arm in ((1, subject.arm), (-1, other.arm))
        )


def _build_trends(
    subject: Side, other: Side, datasets: tuple[str, ...], levels: tuple[str, ...], record: ClaimRecord
) -> Iterator[dict[Cell, float]]:
    """Yield the last level minus the first, all later levels minus the first, and the slope over the levels' values."""
    sides = [(sign, one.arm) for sign, one in ((1, subject), (-1, other)) if one.arm]
    arms = sides or [(1, arm) for arm in record.plan.compared_arms]
    values = {one.name: one.value for one in record.plan.levels}
    shapes = [{levels[-1]: 1.0, levels[0]: -1.0}]
    if len(levels) > 2:
        shapes.append({levels[0]: -1.0} | dict.fromkeys(levels[1:], 1 / (len(levels) - 1)))
    points = [value for name in levels if (value := values.get(name)) is not None]
    if len(points) == len(levels) > 2:
        middle = sum(points) / len(points)
        shapes.append({name: x - middle for name, x in zip(levels, points, strict=True) if x != middle})
    for shape in shapes:
        yield sum_cells(
            (sign * weight / len(datasets), (dataset, arm, level))
            for dataset in datasets
            for sign, arm in arms
            for level, weight in shape.items()
        )


# --- rules ------------------------------------------------------------------------------------------------------------


def _check_direction(one: ResolvedClaim, found: RecordedComparison) -> None:
    """Refuse a claim if the interval of its difference or ratio is not within the limits that its words give; without
    limits, if it does not have the claimed sign, or without a sign ("they differ") if it contains zero."""
    claim, bounded = one.claim, one.claim.is_bounded
    if claim.denied:
        return _check_denied(one, found)
    least = 0.0 if not bounded else -inf if claim.at_least is None else claim.at_least
    most = inf if claim.at_most is None else claim.at_most
    side = found.flip() if found.divisor is None and (one.sign or found.sign) < 0 else found
    low, high = (-inf if side.low is None else side.low), (inf if side.high is None else side.high)
    mean = 0.0 if side.mean is None else side.mean
    is_within, is_outside = least <= low and high <= most and (bounded or low > 0), high < least or low > most
    if least == most:
        ends = sorted((least / RATIO_TOLERANCE, least * RATIO_TOLERANCE))
        is_within = low <= least <= high and ends[0] <= low and high <= ends[1]
    if claim.certainty == "open":
        undecided = found.part is not None and found.decision is not None and found.part.verdict == "open"
        if (is_within or is_outside) and not undecided:
            raise RefusedClaim(f"the record decides it ({found}): report what was found")
    elif is_outside:
        raise RefusedClaim(f"the record has the opposite ({found})")
    elif claim.certainty == "suggested":
        if least != most and not (least <= mean <= most and (bounded or mean)):
            raise RefusedClaim(f"not even the mean is as claimed ({found})")
    elif claim.certainty in ("shown", "observed"):
        if not is_within:
            contains = "the interval does not decide it" if bounded else "the interval contains zero"
            why = "there is no interval" if side.low is None else contains
            raise RefusedClaim(f"{why} ({found}): say that it is open")
        if claim.certainty == "shown" and bounded and least == most and found.divisor is not None:
            raise RefusedClaim(f"no equivalence at {least:g} was registered ({found}): say which values are excluded")
        if claim.certainty == "shown":
            _check_confirmed(found)


def _check_denied(one: ResolvedClaim, found: RecordedComparison) -> None:
    """Refuse "not better" if the interval reaches as far as a difference that matters, or as the claimed limit."""
    claim, side = one.claim, found.flip() if one.sign < 0 and found.divisor is None else found
    limit = max(found.margin or 0.0, claim.at_least or 0.0)
    high = inf if side.high is None else side.high
    is_below = high <= 0 or high < limit
    if side.sign > 0 and not is_below:
        raise RefusedClaim(f"the record has the opposite ({found})")
    if claim.certainty in ("shown", "observed") and not is_below:
        raise RefusedClaim(f"the interval does not exclude it ({found}): say that it is open")
    if claim.certainty == "open" and is_below:
        raise RefusedClaim(f"the record decides it ({found}): report what was found")
    if claim.certainty == "shown":
        _check_confirmed(found)


def _check_absence(one: ResolvedClaim, found: RecordedComparison) -> None:
    certainty = one.claim.certainty
    if certainty in ("open", "conjectured"):
        if found.sign:
            raise RefusedClaim(f"the record has a difference ({found})")
        return
    if not found.is_absent and not (one.claim.amount == "small" and found.is_too_small):
        why = "the record has a difference" if found.sign else "no registered equivalence shows that there is none"
        way = "too small to matter" if found.is_too_small else "" if found.sign else "open"
        raise RefusedClaim(f"{why} ({found}){way and f': say that it is {way}'}")
    if certainty == "shown":
        _check_confirmed(found)


def _check_confirmed(found: RecordedComparison) -> None:
    if not found.is_confirmed:
        way = "" if found.is_registered else ", or call the comparison exploratory"
        raise RefusedClaim(f"it is not a confirmed effect ({found}): write that it was observed{way}")


def _check_turns(one: ResolvedClaim, record: ClaimRecord) -> None:
    """Refuse a trend whose means turn between two levels, unless the text only suggests it."""
    if one.claim.certainty not in ("shown", "observed"):
        return
    datasets = one.datasets or tuple(use.name for use in record.plan.datasets)
    for dataset, (first, second) in product(datasets, pairwise(one.levels or record.plan.level_names)):
        for contrast in _build_contrasts(one, (dataset,), (first, second), record):
            found = record.estimate_contrast(contrast, one.metric)
            if found is not None and found.mean is not None and found.mean * one.sign < 0:
                raise RefusedClaim(f"the means turn between {first} and {second} on {dataset} ({found})")


def _check_size(
    one: ResolvedClaim, sentence: PaperSentence, numbers: Sequence[NumberReference], record: ClaimRecord
) -> None:
    """Refuse a size with the other sign, or without one of the `numbers` around it, unless words judge it."""
    unify = record.unify_arm
    arms = {unify(side.arm) for side in (one.subject, one.other) if side.arm}
    near = [(each.kind, set(map(unify, each.arms))) for each in numbers if _covers(one, each, record)]
    values = {arm for kind, found in near if kind == "value" for arm in found}
    printed = any(arms <= found for _, found in near) or bool(arms and arms <= values)
    claim, is_pair = one.claim, Side() not in (one.subject, one.other)
    compared = _find_comparisons(one, record) if claim.amount and is_pair else []
    unknown = claim.amount == "large" and any(each.margin is None for each in compared)
    if not printed and (not compared or unknown):
        if claim.certainty == "open" and not claim.amount:
            return
        raise RefusedClaim(
            f"the paragraph has no number of this comparison: print {_name_number(one, record)}, or leave the size out"
        )
    for found in compared:
        _check_amount(claim, found, printed)
    if one.sign and is_pair:
        keys = {strip_form(each.key) for each in sentence.references}
        change = replace(one, claim=one.claim.model_copy(update={"kind": "trend"}))
        changes = [
            each
            for each in _find_registered(change, record)
            if each.key in keys and {cell[2] for cell in each.contrast} <= {*one.levels}
        ]
        for found in changes or _find_comparisons(one, record):
            if found.mean is not None and found.mean * one.sign < 0:
                raise RefusedClaim(f"the record has the opposite ({found})")


def _check_amount(claim: ReadClaim, found: RecordedComparison, printed: bool) -> None:
    """Refuse a small size whose interval does not lie below the smallest effect that matters, and a large one whose
    interval does not lie above it. Where the number is printed, an interval that contains it may be called small, and a
    mean above it large."""
    if found.margin is None or found.mean is None or found.low is None or found.high is None:
        return
    near, far = sorted(map(abs, (found.low, found.high)))
    near = near if found.sign else 0.0
    if claim.certainty in ("open", "conjectured") and near <= found.margin <= far:
        return
    is_small = (near if printed else far) <= found.margin
    is_large = (abs(found.mean) if printed else near) >= found.margin
    if not (is_small if claim.amount == "small" else is_large):
        raise RefusedClaim(f"the smallest effect that matters is {found.margin:g} ({found}): leave the judgement out")


def _find_ratios(one: ResolvedClaim, record: ClaimRecord) -> list[RecordedComparison]:
    """Return what the record has about a ratio: one for each named dataset and level. Raises `RefusedClaim`."""
    if Side() in (one.subject, one.divisor[0]):
        raise RefusedClaim("it does not say which quantities have this ratio: name both")
    sides = (one.subject, one.other, *one.divisor)
    datasets = one.datasets or tuple(use.name for use in record.plan.datasets)
    levels = [""] if all(side.level for side in sides if side.arm) else [*(one.levels or record.plan.level_names)]
    found: list[RecordedComparison] = []
    # the same quantity on two datasets, or all quantities on each
    across = len(datasets) == 2 and sides[:2] == sides[2:]
    places = [(datasets[0],) * 2 + (datasets[1],) * 2] if across else [(one,) * 4 for one in datasets]
    for place, level in product(places, levels or [""]):
        cells = [
            (at, side.arm, side.level or level) if side.arm else None for at, side in zip(place, sides, strict=True)
        ]
        above, under = (
            sum_cells((sign, cell) for sign, cell in ((1, first), (-1, second)) if cell is not None)
            for first, second in (cells[:2], cells[2:])
        )
        ratio = record.estimate_ratio(above, under, one.metric) if above != under and above and under else None
        if ratio is not None:
            found.append(ratio)
        elif one.datasets and one.levels:
            raise RefusedClaim(f"the record has no measurement of it ({level} on {place[0]})")
    if not found:
        raise RefusedClaim("the record has no measurement of it (no such ratio)")
    # where the text names no level, those without a quantity to divide by have no ratio
    return found if one.levels else [each for each in found if each.low != -inf] or found


def _check_count(one: ResolvedClaim, found: Sequence[RecordedComparison]) -> None:
    """Refuse a number of cases that is not the number of contrasts with the claimed sign, or without a difference."""
    is_absence = one.claim.kind == "no difference"
    shown = {frozenset(each.contrast): each.is_absent if is_absence else each.sign == one.sign != 0 for each in found}
    if sum(shown.values()) != one.claim.count:
        raise RefusedClaim(f"it holds in {sum(shown.values())} of {len(shown)} cases: say in which")


def _name_number(one: ResolvedClaim, record: ClaimRecord) -> str:
    """Name a number that would support a size, by its key if it has one."""
    keys = [each.key for each in record.means if each.arm in (one.subject.arm, one.other.arm)]
    with suppress(RefusedClaim):
        keys = [*(each.key for each in _find_comparisons(one, record)), *keys]
    known = ((key, record.describe_key(f"{key}.mean")) for key in keys)
    return next((f"the number of {key}" for key, found in known if found and _covers(one, found, record)), "it")


def _check_registered(claim: ReadClaim, sentence: PaperSentence, record: ClaimRecord, around: Surroundings) -> None:
    decision = _find_decision(claim, sentence, record)
    name = decision.hypothesis.id
    if claim.verdict != decision.verdict:
        parts = [str(one) for one in record.registered if one.decision is decision and one.source == "effect"]
        raise RefusedClaim("; ".join((f"hypothesis {name} is {decision.verdict}", *parts)))
    softened = around.is_exploratory and not decision.hypothesis.confirmatory
    if claim.certainty == "shown" and claim.verdict != "open" and not (decision.confirmed or softened):
        raise RefusedClaim(f"hypothesis {name} was not confirmed on test data and fresh seeds: report it as observed")


def _find_decision(claim: ReadClaim, sentence: PaperSentence, record: ClaimRecord) -> HypothesisDecision:
    ids = {claim.hypothesis} - {""} or {one.hypothesis for one in sentence.references} - {""}
    found = [one for one in record.decisions if one.hypothesis.id in ids]
    if not ids and len(record.decisions) == 1:
        found = list(record.decisions)
    if len(found) != 1:
        known = ", ".join(one.hypothesis.id for one in record.decisions) or "none"
        raise RefusedClaim(f"it does not say which hypothesis it is about (the record has {known})")
    return found[0]


def _check_cause(one: ResolvedClaim, numbers: Sequence[NumberReference], record: ClaimRecord) -> None:
    claim = one.claim
    if claim.certainty in ("open", "conjectured"):
        return
    for decision in record.decisions:
        hinted = claim.certainty == "suggested" and decision.verdict == "open"
        if decision.hypothesis.id == claim.hypothesis and (decision.verdict == "supported" or hinted):
            rival = decision.hypothesis.rival
            read = [record.describe_key(f"{decision.key}/{k}") for k in range(1, len(decision.parts) + 1)]
            isolates = any(_reads_ablation(number, record) for number in read if number is not None)
            excluded = rival is not None and decision.rival_sign == rival.ours
            if (excluded or (isolates and not hinted)) and (claim.certainty != "shown" or decision.confirmed):
                if claim.denied:
                    raise RefusedClaim(f"hypothesis {claim.hypothesis}, which states it, is {decision.verdict}")
                return
    if claim.certainty == "suggested" and any(_separates(one, each, record) for each in numbers):
        return
    if claim.denied:
        raise RefusedClaim("that it is not the cause was not registered: mark it as a conjecture, or leave it out")
    arms = [side.arm for side in (one.subject, one.other) if side.arm]
    ablated = next((arm for arm in arms if record.roles[arm] == "ablation"), None)
    if ablated is None:
        raise RefusedClaim("no measured ablation isolates this cause: mark it as a conjecture, or leave it out")
    pair = replace(
        one,
        claim=claim.model_copy(update={"kind": "direction", "direction": "worse"}),
        subject=Side(ablated),
        other=Side(next((arm for arm in arms if arm != ablated), record.plan.find_tuned_arm(ablated))),
        datasets=one.datasets or (record.plan.datasets[0].name,),
    )
    found = _find_comparisons(pair, record)
    if not any(each.sign == pair.sign for each in found) or any(each.sign == -pair.sign for each in found):
        raise RefusedClaim(f"the ablation does not show it ({'; '.join(map(str, found[:2]))}): mark it as a conjecture")
    undecided = [each for each in found if not each.is_supported]
    if claim.certainty != "suggested" and undecided:
        raise RefusedClaim(
            f"no registered hypothesis or estimate decides this cause ({undecided[0]}): mark it as a conjecture"
        )
    if claim.certainty == "shown":
        for each in found:
            _check_confirmed(each)


def _reads_ablation(number: NumberReference, record: ClaimRecord) -> bool:
    return any(record.roles.get(arm) == "ablation" for arm in number.arms)


def _separates(one: ResolvedClaim, number: NumberReference, record: ClaimRecord) -> bool:
    """Return whether a number separates explanations: an estimate that the outline planned for it, a requested one, or
    one of an ablation, of a claim's arms and data, whose interval excludes zero."""
    key = strip_form(number.key)
    decided = {each.key for each in record.registered if each.sign}
    decided |= {each.key for each in record.differences if each.excludes_zero}
    isolates = key.startswith("estimate/") or key in record.separating or _reads_ablation(number, record)
    return key in decided and isolates and _covers(one, number, record)


def _check_measured(one: ResolvedClaim, record: ClaimRecord) -> None:
    """Refuse arms, datasets or levels that were not measured together, or another number of arms there."""
    arms = [side.arm for side in (one.subject, one.other) if side.arm]
    cells = [cell for _, *cell in record.values if not one.datasets or cell[0] in one.datasets]
    for place in product(one.datasets or [""], arms or [""], one.levels or [""]):
        if not any(all(name in ("", each) for name, each in zip(place, cell, strict=True)) for cell in cells):
            raise RefusedClaim(f"the record has no measurement of it ({' '.join(filter(None, place))})")
    there = {arm for _, arm, level in cells if not one.levels or level in (*one.levels, "")}
    planned = there.intersection(each.name for each in record.plan.arms)
    counts = {len(set(map(name, arms))) for arms in (there, planned) for name in (str, record.unify_arm)}
    if one.claim.count not in (None, *counts):
        raise RefusedClaim(f"the record has {' or '.join(map(str, sorted(counts)))} arms there")


def _check_generality(one: ResolvedClaim, record: ClaimRecord) -> None:
    if one.claim.certainty in ("open", "conjectured"):
        return
    if one.sign and Side() not in (one.subject, one.other):
        if one.claim.datasets and len(one.claim.datasets) + len(one.claim.levels) > 2:
            found = _find_comparisons(one, record)
        else:
            registered = ((each, each.decision) for each in _find_registered(one, record))
            found = [each for each, decision in registered if decision and decision.hypothesis.unit == "datasets"]
        for each in found:
            _check_direction(one, each)
        if found:
            return
    raise RefusedClaim(
        "it goes beyond the datasets and levels that were measured: name them, or mark it as a conjecture"
    )


# --- numbers and words ------------------------------------------------------------------------------------------------


def _covers(one: ResolvedClaim, number: NumberReference, record: ClaimRecord) -> bool:
    """Return whether a number may belong to a claim: the same metric, common arms, datasets and levels."""
    sides = (one.subject, one.other, *one.divisor)
    arms = {record.unify_arm(side.arm) for side in sides if side.arm}
    known = {record.unify_arm(arm) for arm in number.arms}
    levels = {side.level for side in sides if side.level} or {*one.levels}
    return (
        one.metric == number.metric
        and (not arms or arms <= known or known <= arms)
        and (not one.datasets or not {*one.datasets}.isdisjoint(number.datasets))
        and (not levels or not number.levels or not levels.isdisjoint(number.levels))
    )


def describe_claim(claim: ReadClaim) -> str:
    """Describe a claim in one phrase: `direction: method better than baseline, log_loss, digits, observed`."""
    sides, link = claim.subject, f"{claim.direction} than" if claim.direction != "none" else "and"
    if claim.other:
        sides = f"{sides} {link} {claim.other}"
    if claim.denied:
        sides = f"not {sides}"
    if claim.kind == "ratio":
        sides = f"{sides} over {' and '.join(filter(None, (claim.of_subject, claim.of_other)))}"
    parts = (
        f"{claim.hypothesis} {claim.verdict}".strip() if claim.kind == "registered" else "",
        claim.amount,
        sides,
        f"at least {claim.at_least:g}" if claim.at_least is not None else "",
        f"at most {claim.at_most:g}" if claim.at_most is not None else "",
        claim.direction if not claim.other and claim.direction != "none" else "",
        claim.metric,
        *claim.datasets,
        f"against {claim.other_dataset}" if claim.other_dataset else "",
        *claim.levels,
        claim.certainty,
    )
    return f"{claim.kind}: {', '.join(filter(None, parts))}"
