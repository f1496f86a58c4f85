"""What the offline model reads and judges. Roles `claim_reader` and `second_claim_reader` for the texts that it writes.

Their outcomes print measured numbers, so arms, metric, data and levels come from the references of the numbers, and the
words need only give direction and verdict. Sentences without numbers are outcomes if they generalise.

Also the other roles that read: prior work, protocol, set-up, code and citations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from labwright.models.roles.claim_reader import (
    ClaimReaderInputs,
    ClaimVocabulary,
    ComparedSentences,
    NumberReference,
    PrintedSentence,
    ReadSentences,
    SetupReaderInputs,
)
from labwright.models.roles.figures import FigureReviews, PaperFigureReviews, VisionInputs
from labwright.models.roles.judge import Influence
from labwright.models.roles.node_assessment import CodeReading, FeedbackInputs, Preference, SummaryInputs
from labwright.models.roles.paper_revision import CiteQueries, CiteSelection, CopyEdits
from labwright.models.roles.study_plan import PriorSearch, PriorWork, ProtocolReview
from labwright.record.schema.claims import ClaimDirection, ComparedSentence, ReadClaim, ReadSentence, SentenceLabel
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.hypotheses import HypothesisVerdict
from labwright.record.schema.nodes import NodeVerdict, StageName, StageReport
from labwright.record.schema.paper import FigureReview
from labwright.record.table import format_quantity

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


# Roles `vision`, `feedback`, `compare`, `summary`: judgements from findings, measurements and statistics only.

NEXT_STEP: dict[StageName, str] = {
    "preliminary": "Tune both arms.",
    "tuning": "Settle the hyperparameters and run the idea's experiments.",
    "agenda": "Remove the parts that carry the claim, one at a time.",
    "ablation": "Remove the next part that carries the claim, then write the paper.",
}


def answer_vision(inputs: VisionInputs) -> FigureReviews:
    """Call every figure readable: the lint refused none of them, and this model sees no images."""
    reviews: list[FigureReview] = []
    for name, facts in zip(inputs.names, inputs.facts, strict=True):
        seen = [axes for axes in facts.axes if axes.visible]
        pairs = dict.fromkeys(f"{one.ylabel or 'no name'} against {one.xlabel or 'no name'}" for one in seen)
        shown = f"{len(seen)} panel{'s' * (len(seen) != 1)}: {', '.join(pairs) or 'nothing'}."
        reviews.append(FigureReview(name=name, readable=True, description=shown))
    return FigureReviews(reviews=tuple(reviews))


def answer_feedback(inputs: FeedbackInputs) -> NodeVerdict:
    """Judge whether the measurements cover what the plan compares, and say which arm is better with this one seed."""
    plan, primary = inputs.data_plan, inputs.data_plan.primary_metric
    values = {(one.dataset, one.condition): one.value for one in inputs.node.measurements if one.name == primary.name}
    wanted = list(plan.conditions)
    if inputs.stage == "ablation" or inputs.kind == "ablate":  # an ablation needs only its own arm
        arms = sorted({parse_arm(condition) for _, condition in values} - {arm.name for arm in plan.arms})
        wanted = [f"{arm}@{level.name}" for arm in arms for level in plan.levels] if plan.levels else arms
    used = [use.name for use in plan.datasets if any(dataset == use.name for dataset, _ in values)]
    missing = [f"{dataset} {one}" for dataset in used for one in wanted if (dataset, one) not in values]
    if missing or not used or not wanted:
        return NodeVerdict(
            sound=False,
            analysis=f"Not every condition of the plan was measured. Missing: {', '.join(missing) or primary.name}.",
            next_step="Measure every condition on every dataset used.",
        )
    base, method = (next((arm.name for arm in plan.arms if arm.role == role), "") for role in ("baseline", "method"))
    sign = 1 if primary.higher_is_better else -1
    gains = {
        f"{dataset} {parse_level(condition)}".strip(): sign * (value - values[dataset, other])
        for (dataset, condition), value in values.items()
        for other in [condition.replace(method, base, 1)]
        if parse_arm(condition) == method and (dataset, other) in values
    }
    better = [place for place, gain in gains.items() if gain > 0]
    where = f"on {', '.join(better)}" if better else "in no comparison"
    said = (
        f"With this one seed, {method} has the better validation {primary.title or primary.name} than {base} {where}."
    )
    return NodeVerdict(
        sound=True, analysis=said if gains else "Every condition was measured.", next_step=NEXT_STEP[inputs.stage]
    )


def answer_summary(inputs: SummaryInputs) -> StageReport:
    """Describe the stage from its nodes and the replicates of its best node."""
    states = ", ".join(f"{count} {state}" for state, count in Counter(one.status for one in inputs.nodes).items())
    best = next((one for one in inputs.nodes if one.id == inputs.best), None)
    outcome = f" ({best.varies}; {best.outcome})" if best else ""
    reasons = f" Chosen because {'; '.join(inputs.reasons)}." if inputs.reasons else ""
    primary = inputs.data_plan.primary_metric.name
    replicated = [one for one in inputs.statistics if one.name == primary]
    keys = [one.key for one in (*inputs.differences, *inputs.statistics) if one.name == primary and one.key]
    replicates = [
        f"{len(replicated)} conditions were replicated, with at least {min(one.n for one in replicated)} seeds each."
        if replicated
        else "Nothing was replicated in this stage."
    ]
    if inputs.replicates_failed:
        replicates.append(f"{inputs.replicates_failed} replicates failed.")
    if inputs.seedless:
        replicates.append(f"The values of {', '.join(inputs.seedless)} are the same for every seed.")
    return StageReport(
        tried=f"{format_quantity(len(inputs.nodes), 'node')} ({states or 'none'}). It ended because {inputs.ended}.",
        found=f"Best node: {inputs.best}{outcome}.{reasons}" if inputs.best else "No node can be carried forward.",
        supported_by_replicates=" ".join(replicates),
        next=NEXT_STEP[inputs.stage] if inputs.best else "Examine the failures before continuing.",
        numbers=tuple(keys[:12]) if inputs.best else (),
    )


CONFIGURE_MODEL_HINT = (
    "configure a model: --model PROVIDER:MODEL (as anthropic:NAME, or openai-chat:NAME with --base-url for your own "
    "server), or SCIENTIST_MODELS__NAME"
)

UNREAD_ANSWERS: Mapping[str, BaseModel] = {
    "compare": Preference(better="neither", reasons="The offline model does not read code."),
    "prior_search": PriorSearch(),
    "prior_work": PriorWork(),
    "protocol_review": ProtocolReview(),
    "code_reader": CodeReading(verdict="doubtful", unread=True),
    "cite_ask": CiteQueries(),
    "cite_select": CiteSelection(),
    "figure_review": PaperFigureReviews(looked=False),
    "copy_edit": CopyEdits(),
    "influence": Influence(unread=True),
}
"""Answers of roles that read a plan, code, a paper or pictures, which this model cannot: it finds nothing."""
