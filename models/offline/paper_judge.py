"""Role `judge`: a heuristic over the facts of a run's record, so that the last step of a run works without a model.

The paper is not read, for role `influence` neither, and every answer says so; `prefer` is refused. Only the bundled
rubric's dimensions are known, and only this program's runs have facts; anything else raises `CatalogueError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class PointCount:
    """A score computed from facts, each with the points that it added or subtracted."""

    score: int
    why: list[str] = field(default_factory=list[str])

    def add_points(self, points: int, holds: bool, fact: str) -> None:
        if holds:
            self.score += points
            self.why.append(f"{fact} ({points:+d})")

    def clamp(self, lowest: int, highest: int) -> tuple[int, str]:
        """Return the score between bounds, and its reasons."""
        return max(lowest, min(highest, self.score)), HEURISTIC_PREFIX + (
            "; ".join(self.why) or "nothing spoke for or against"
        )


def answer_judge(inputs: JudgeInputs) -> JudgeAnswer:
    """Score a paper from the facts of the record.

    Raises:
        CatalogueError: the paper is not from a run of this program, or the rubric has other dimensions or scales.
    """
    facts = inputs.facts
    if facts is None:
        raise CatalogueError(
            f"the offline model cannot read a paper, it only counts facts in the record of a run of this program; "
            f"{CONFIGURE_MODEL_HINT}"
        )
    rubric = inputs.rubric
    strange = [
        one.name for one in rubric.dimensions if one.name not in SCORE_FUNCTIONS or (one.lowest, one.highest) != (1, 10)
    ]
    if strange:
        raise CatalogueError(
            f"the offline model has no heuristic for {', '.join(strange)} of the rubric "
            f"{rubric.name!r}, only for {', '.join(SCORE_FUNCTIONS)} from 1 to 10; {CONFIGURE_MODEL_HINT}"
        )
    scores: dict[str, dict[str, object]] = {}
    for one in rubric.dimensions:
        score, reason = SCORE_FUNCTIONS[one.name](facts)
        scores[one.name] = {"score": score, "reason": reason, "quote": find_quote(inputs.paper, QUOTE_WORDS[one.name])}
    figures = (
        {"text_alone": _score_text_alone(facts), "results": _judge_results(facts, inputs.paper)}
        if rubric.results
        else {}
    )
    return build_answer_type(rubric).model_validate(
        {
            "strengths": _list_strengths(facts),
            "weaknesses": _list_weaknesses(facts),
            "scores": scores,
            "heuristic": True,
            "confidence": rubric.confidence.lowest,
            **figures,
        }
    )


def answer_influence(_: InfluenceInputs) -> Influence:
    """Name no passage, since none was read; the answer says so."""
    return Influence(unread=True)


def answer_prefer(inputs: PreferInputs) -> Never:
    """Refuse. Raises `CatalogueError`."""
    raise CatalogueError(f"the offline model cannot read papers, so it prefers none; {CONFIGURE_MODEL_HINT}")


# --- scores ---------------------------------------------------------------------------------------------------------


def score_clarity(facts: RecordFacts) -> tuple[int, str]:
    """Count what helps a reader; this says nothing about how the text reads."""
    count = PointCount(4)
    count.add_points(1, facts.released, "compiled and within its limits")
    count.add_points(1, facts.figures >= 1, f"{facts.figures} figures placed")
    count.add_points(-1, facts.bound_values == 0, "no value in the text")
    return count.clamp(1, 6)


def score_novelty(facts: RecordFacts) -> tuple[int, str]:
    """Count what the paper adds, capped low, since the study is not a new idea."""
    count = PointCount(2)
    count.add_points(1, facts.references >= 5, f"{facts.references} works to differ from are cited")
    count.add_points(1, facts.ablations >= 1, f"{facts.ablations} parts ablated one by one")
    return count.clamp(1, 4)


def score_soundness(facts: RecordFacts) -> tuple[int, str]:
    """Count replicates, ablations and grades for it; failures, doubts and self-reported values against it."""
    count = PointCount(3)
    logged = dict(facts.grades).get("logged", 0)
    count.add_points(1, facts.fewest_seeds >= 3, f"at least {facts.fewest_seeds} seeds behind every value")
    count.add_points(1, facts.fewest_seeds >= 5, "enough of them for a verdict")
    count.add_points(1, facts.ablations >= 2, f"{facts.ablations} ablations")
    count.add_points(1, bool(facts.grades) and not logged, "every value computed by the program")
    count.add_points(-1, "computed" in dict(facts.grades), "labels within the code's reach")
    count.add_points(1, _count_settled(facts) > facts.open, f"{_count_settled(facts)} hypotheses decided")
    count.add_points(-1, facts.replicates_failed > 0, f"{facts.replicates_failed} replicates failed")
    count.add_points(-1, facts.doubted * 4 > facts.nodes, f"{facts.doubted} of {facts.nodes} nodes suspect")
    count.add_points(-1, bool(facts.limited), "ended early")
    count.add_points(-2, not facts.released, "not released: something is unbound or does not fit")
    return count.clamp(1, 8)


def score_significance(facts: RecordFacts) -> tuple[int, str]:
    """Count breadth of data and settled questions; the importance of the question cannot be counted."""
    count = PointCount(2)
    count.add_points(1, facts.datasets >= 2, f"{facts.datasets} datasets")
    count.add_points(1, _count_settled(facts) > 0, f"{_count_settled(facts)} hypotheses decided")
    count.add_points(1, facts.for_method > facts.for_other, f"{facts.for_method} comparisons favour the method")
    return count.clamp(1, 5)


def score_overall(facts: RecordFacts) -> tuple[int, str]:
    """Return the mean of the others, at most one above soundness, rounded down."""
    parts = {name: SCORE_FUNCTIONS[name](facts)[0] for name in ("clarity", "novelty", "soundness", "significance")}
    score = min(sum(parts.values()) // len(parts), parts["soundness"] + 1)
    return max(
        1, score
    ), f"{HEURISTIC_PREFIX}mean of {', '.join(f'{name} {one}' for name, one in parts.items())}, rounded down"


def _score_text_alone(facts: RecordFacts) -> dict[str, object]:
    """Return clarity, the only score counted over the text."""
    score, reason = score_clarity(facts)
    return {"score": score, "reason": reason}


def _judge_results(facts: RecordFacts, paper: str) -> dict[str, object]:
    """Answer 'measured' if the program computed every value, otherwise 'cannot tell'."""
    grades = dict(facts.grades)
    if not facts.released or not grades or "logged" in grades:
        return {
            "details": f"{HEURISTIC_PREFIX}{grades.get('logged', 0)} values are self-reported by the code",
            "answer": "cannot tell",
        }
    return {
        "details": f"{HEURISTIC_PREFIX}the program computed {sum(grades.values())} values from the code's submissions",
        "quote": find_quote(paper, QUOTE_WORDS["soundness"]),
        "answer": "measured",
    }


SCORE_FUNCTIONS: dict[str, Callable[[RecordFacts], tuple[int, str]]] = {
    "clarity": score_clarity,
    "novelty": score_novelty,
    "soundness": score_soundness,
    "significance": score_significance,
    "overall": score_overall,
}
QUOTE_WORDS = {
    "clarity": ("we ask", "we study", "we measure", "question", "we "),
    "novelty": ("closest", "differs", "prior", "we "),
    "soundness": ("seeds", "replicate", "interval", "validation", "test"),
    "overall": ("we find", "improved", "result", "we "),
    "significance": ("because", "matters", "decisions", "practice", "we "),
}


def _count_settled(facts: RecordFacts) -> int:
    return facts.supported + facts.refuted


# --- words ----------------------------------------------------------------------------------------------------------


def _list_strengths(facts: RecordFacts) -> tuple[str, ...]:
    return _list_true(
        {
            f"{facts.bound_values} values of the text are bound to the record.": facts.bound_values > 0
            and facts.released,
            f"At least {facts.fewest_seeds} seeds stand behind every value.": facts.fewest_seeds >= 3,
            f"{facts.ablations} parts were ablated one by one.": facts.ablations > 0,
        }
    ) or (f"{HEURISTIC_PREFIX}no countable ones.",)


def _list_weaknesses(facts: RecordFacts) -> tuple[str, ...]:
    logged = dict(facts.grades).get("logged", 0)
    return (
        *_list_true(
            {
                "The paper was not released.": not facts.released,
                f"Only {facts.fewest_seeds} seeds stand behind some value; a verdict needs five.": facts.fewest_seeds
                < 5,
                f"{facts.replicates_failed} replicates of the reported configuration failed.": facts.replicates_failed
                > 0,
                f"{logged} values are self-reported by the code.": logged > 0,
                "Nothing was ablated.": facts.ablations == 0,
                "One dataset only.": facts.datasets < 2,
            }
        ),
        "Nobody read the paper: clarity, novelty and significance cannot be counted.",
    )


def _list_true(facts: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(HEURISTIC_PREFIX + text for text, holds in facts.items() if holds)


_SENTENCE = re.compile(r"[A-Z][^.!?\[\]\\#`|]{30,340}[^.!?\[\]\\#`|\s][.!?](?<!et al\.)(?=\s|$)")


def find_quote(paper: str, words: tuple[str, ...]) -> str:
    """Return the first sentence of the paper with one of the words, earlier words first; else its first sentence."""
    paragraphs = (one for one in re.split(r"\n\s*\n", paper) if not one.startswith("#"))
    sentences = [" ".join(match[0].split()) for one in paragraphs for match in _SENTENCE.finditer(one)]
    for word in words:
        for sentence in sentences:
            if word in sentence.lower():
                return sentence
    return sentences[0] if sentences else " ".join(paper.split())[:80].ljust(12, ".")
