"""Role `judge`: a heuristic over the facts of a run's record, so that the last step of a run works without a model.

The paper is not read, for role `influence` neither, and every answer says so; `prefer` is refused. Only the bundled
rubric's dimensions are known, and only this program's runs have facts; anything else raises `CatalogueError`.
"""

from __future__ import annotations

import re
from typing import Never

from labwright.models.errors import CatalogueError
from labwright.models.roles.judge import (
    Influence,
    InfluenceInputs,
    JudgeAnswer,
    JudgeInputs,
    PreferInputs,
    RecordFacts,
    build_answer_type,
)

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
