"""What the offline model reads and judges. Roles `claim_reader` and `second_claim_reader` for the texts that it writes.

Their outcomes print measured numbers, so arms, metric, data and levels come from the references of the numbers, and the
words need only give direction and verdict. Sentences without numbers are outcomes if they generalise.

Also the other roles that read: prior work, protocol, set-up, code and citations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Never

from labwright.models.errors import CatalogueError
from labwright.models.roles.claim_reader import (
    ClaimReaderInputs,
    ClaimVocabulary,
    ComparedSentences,
    NumberReference,
    PrintedSentence,
    ReadSentences,
    SetupReaderInputs,
)
from labwright.models.roles.figures import FigureReviews, VisionInputs
from labwright.models.roles.judge import (
    Influence,
    InfluenceInputs,
    JudgeAnswer,
    JudgeInputs,
    PreferInputs,
    RecordFacts,
    build_answer_type,
)
from labwright.models.roles.node_assessment import (
    CodeReaderInputs,
    CodeReading,
    CompareInputs,
    FeedbackInputs,
    Preference,
    StageReport,
    SummaryInputs,
)
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
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.record.schema.hypotheses import HypothesisVerdict
from labwright.record.schema.nodes import NodeVerdict, StageName
from labwright.record.schema.paper import FigureReview

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
    values = {(one.dataset, one.condition): one.value for one in inputs.measurements if one.name == primary.name}
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


def answer_compare(inputs: CompareInputs) -> Preference:
    """Answer neither: this model sees what a program measured, but cannot judge its code."""
    names = f"{inputs.a.varies or inputs.a.id} and {inputs.b.varies or inputs.b.id}"
    reason = f"{names} measured the same within the noise; the offline model does not read code."
    return Preference(better="neither", reasons=reason)


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
        tried=f"{len(inputs.nodes)} nodes ({states or 'none'}). The stage ended because {inputs.ended}.",
        found=f"Best node: {inputs.best}{outcome}.{reasons}" if inputs.best else "No node can be carried forward.",
        supported_by_replicates=" ".join(replicates),
        next=NEXT_STEP[inputs.stage] if inputs.best else "Examine the failures before continuing.",
        numbers=tuple(keys[:12]) if inputs.best else (),
    )


# Role `judge`: a heuristic over the facts of a run's record, so that the last step of a run works without a model.
#
# The paper is not read, for role `influence` neither, and every answer says so; `prefer` is refused. Only the bundled
# rubric's dimensions are known, and only this program's runs have facts; anything else raises `CatalogueError`.

CONFIGURE_MODEL_HINT = (
    "configure a model: --model PROVIDER:MODEL (as anthropic:NAME, or openai-chat:NAME with --base-url for your own "
    "server), or SCIENTIST_MODELS__NAME"
)
HEURISTIC_PREFIX = "Heuristic, counted from the record: "


STARTS_AND_CAPS = {"clarity": (4, 6), "novelty": (2, 4), "soundness": (3, 8), "significance": (2, 5)}
"""Dimension -> score without any points, and cap: what cannot be counted stays low."""
QUOTE_WORDS = {
    "clarity": ("we ask", "we study", "we measure", "question", "we "),
    "novelty": ("closest", "differs", "prior", "we "),
    "soundness": ("seeds", "replicate", "interval", "validation", "test"),
    "significance": ("because", "matters", "decisions", "practice", "we "),
    "overall": ("we find", "improved", "result", "we "),
}
"""Dimension -> words of which a quoted sentence has one, earlier ones first."""


def _count_points(facts: RecordFacts) -> list[tuple[str, int, str]]:
    """Return (dimension, points, fact) of each fact of the record that counts."""
    grades, decided = dict(facts.grades), facts.supported + facts.refuted
    every = (
        ("clarity", 1, facts.released, "compiled and within its limits"),
        ("clarity", 1, facts.figures >= 1, f"{facts.figures} figures placed"),
        ("clarity", -1, facts.bound_values == 0, "no value in the text"),
        ("novelty", 1, facts.references >= 5, f"{facts.references} works to differ from are cited"),
        ("novelty", 1, facts.ablations >= 1, f"{facts.ablations} parts ablated one by one"),
        ("soundness", 1, facts.fewest_seeds >= 3, f"at least {facts.fewest_seeds} seeds behind every value"),
        ("soundness", 1, facts.fewest_seeds >= 5, "enough of them for a verdict"),
        ("soundness", 1, facts.ablations >= 2, f"{facts.ablations} ablations"),
        ("soundness", 1, bool(grades) and not grades.get("logged"), "every value computed by the program"),
        ("soundness", -1, "computed" in grades, "labels within the code's reach"),
        ("soundness", 1, decided > facts.open, f"{decided} hypotheses decided"),
        ("soundness", -1, facts.replicates_failed > 0, f"{facts.replicates_failed} replicates failed"),
        ("soundness", -1, facts.doubted * 4 > facts.nodes, f"{facts.doubted} of {facts.nodes} nodes suspect"),
        ("soundness", -1, bool(facts.limited), "ended early"),
        ("soundness", -2, not facts.released, "not released: something is unbound or does not fit"),
        ("significance", 1, facts.datasets >= 2, f"{facts.datasets} datasets"),
        ("significance", 1, decided > 0, f"{decided} hypotheses decided"),
        ("significance", 1, facts.for_method > facts.for_other, f"{facts.for_method} comparisons favour the method"),
    )
    return [(name, points, fact) for name, points, holds, fact in every if holds]


def answer_judge(inputs: JudgeInputs) -> JudgeAnswer:
    """Score a paper from the facts of the record.

    Raises:
        CatalogueError: the paper is not from a run of this program, or the rubric has other dimensions or scales.
    """
    facts, rubric = inputs.facts, inputs.rubric
    if facts is None:
        raise CatalogueError(
            f"the offline model cannot read a paper, it only counts facts in the record of a run of this program; "
            f"{CONFIGURE_MODEL_HINT}"
        )
    dimensions = {one.name: (one.lowest, one.highest) for one in rubric.dimensions}
    if strange := [name for name, scale in dimensions.items() if name not in QUOTE_WORDS or scale != (1, 10)]:
        raise CatalogueError(
            f"the offline model has no heuristic for {', '.join(strange)} of the rubric "
            f"{rubric.name!r}, only for {', '.join(QUOTE_WORDS)} from 1 to 10; {CONFIGURE_MODEL_HINT}"
        )
    counted = _count_points(facts)
    scores: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for name, (start, cap) in STARTS_AND_CAPS.items():
        scores[name] = max(1, min(cap, start + sum(points for of, points, _ in counted if of == name)))
        said = "; ".join(f"{fact} ({points:+d})" for of, points, fact in counted if of == name)
        reasons[name] = HEURISTIC_PREFIX + (said or "nothing spoke for or against")
    mean = sum(scores.values()) // len(scores)
    reasons["overall"] = f"{HEURISTIC_PREFIX}mean of {scores}, rounded down, at most one above soundness"
    scores["overall"] = max(1, min(mean, scores["soundness"] + 1))
    good, bad = (
        tuple(dict.fromkeys(f"{HEURISTIC_PREFIX}{fact}." for _, points, fact in counted if points * sign > 0))
        for sign in (1, -1)
    )
    answer: dict[str, object] = {
        "strengths": good or (f"{HEURISTIC_PREFIX}no countable ones.",),
        "weaknesses": (*bad, "Nobody read the paper: clarity, novelty and significance cannot be counted."),
        "scores": {
            name: {"score": scores[name], "reason": reasons[name], "quote": find_quote(inputs.paper, QUOTE_WORDS[name])}
            for name in dimensions
        },
        "heuristic": True,
        "confidence": rubric.confidence.lowest,
    }
    if rubric.results:
        answer["text_alone"] = {"score": scores["clarity"], "reason": reasons["clarity"]}
        answer["results"] = _judge_results(facts, inputs.paper)
    return build_answer_type(rubric).model_validate(answer)


def _judge_results(facts: RecordFacts, paper: str) -> dict[str, object]:
    """Answer 'measured' if the program computed every value, otherwise 'cannot tell'."""
    grades = dict(facts.grades)
    if not facts.released or not grades or "logged" in grades:
        logged = grades.get("logged", 0)
        return {"details": f"{HEURISTIC_PREFIX}{logged} values are self-reported by the code", "answer": "cannot tell"}
    return {
        "details": f"{HEURISTIC_PREFIX}the program computed {sum(grades.values())} values from the code's submissions",
        "quote": find_quote(paper, QUOTE_WORDS["soundness"]),
        "answer": "measured",
    }


def answer_influence(_: InfluenceInputs) -> Influence:
    """Name no passage, since none was read; the answer says so."""
    return Influence(unread=True)


def answer_prefer(inputs: PreferInputs) -> Never:
    """Refuse. Raises `CatalogueError`."""
    raise CatalogueError(f"the offline model cannot read papers, so it prefers none; {CONFIGURE_MODEL_HINT}")


_SENTENCE = re.compile(r"[A-Z][^.!?\[\]\\#`|]{30,340}[^.!?\[\]\\#`|\s][.!?](?<!et al\.)(?=\s|$)")


def find_quote(paper: str, words: tuple[str, ...]) -> str:
    """Return the first sentence of the paper with one of the words, earlier words first; else its first sentence."""
    paragraphs = (one for one in re.split(r"\n\s*\n", paper) if not one.startswith("#"))
    sentences = [" ".join(match[0].split()) for one in paragraphs for match in _SENTENCE.finditer(one)]
    found = (one for word in words for one in sentences if word in one.lower())
    return next(found, sentences[0] if sentences else " ".join(paper.split())[:80].ljust(12, "."))
