"""Planners: a language model that reads the paper at once (`lm`) or by section (`agent`), and `headings`.

`headings` removes each part that the method names, without a model, as a trivial baseline. Repeats are dropped; a
plan is then cut where the expected F1 decreases, by the planner's own probabilities, and at k.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labwright.evals.ablationbench.papers import (
    MAX_CHARACTERS,
    PlannedAblation,
    RepeatedAblation,
    VisiblePaper,
    split_repeats,
)
from labwright.evals.ablationbench.roles import PAPER_ABLATIONS, PaperAblations, PaperAblationsInputs, WantedAblation
from labwright.models.client import ModelClient
from labwright.review.judge.paper_reader import PaperSection, make_excerpt

MEAN_GOLD_COUNT = {"author": 3.7, "reviewer": 1.8}
"""Mean number of gold ablations, and of requests in reviews, per paper (AblationBench, section 3)."""
MAX_ROUNDS, FIRST_CHARACTERS, MAX_HITS = 3, 12_000, 6
"""Limits of the agent: requests for more text, characters shown first, passages per search."""
_PASSAGE_HEADS = re.compile(
    r"\*\*([^*\n]{2,80}?)[.:]?\*\*|\\(?:sub)*(?:section|paragraph)\*?\{([^{}\n]{2,80}?)[.:]?\}"
    r"|^#{3,}[ \t]+(?:\d[\d.]*[ \t]+)?(.{2,80}?)$",
    re.MULTILINE,
)
_GENERIC_TITLES = re.compile(
    r"introduction|related work|training|overview|setup|notation|implementation|background|abstract", re.IGNORECASE
)


@dataclass(frozen=True)
class PlanToJudge:
    """A plan to be judged. `repeats` were removed before the cut, `beyond` by the cut."""

    entries: tuple[PlannedAblation, ...]
    repeats: tuple[RepeatedAblation, ...] = ()
    cut_entries: tuple[PlannedAblation, ...] = ()
    faults: tuple[str, ...] = ()


def cut_plan(entries: Sequence[PlannedAblation], k: int, *, faults: tuple[str, ...] = ()) -> PlanToJudge:
    """Return the first k entries that are not repeats."""
    kept, repeats = split_repeats(entries)
    return PlanToJudge(kept[:k], repeats, kept[k:], faults)


async def ask_at_once(client: ModelClient, inputs: PaperAblationsInputs) -> PaperAblations:
    """Return the answer of a model that reads the paper at once. Raises `ModelError`."""
    return await client.ask(PAPER_ABLATIONS, inputs)


async def ask_by_section(client: ModelClient, inputs: PaperAblationsInputs, seen: VisiblePaper) -> PaperAblations:
    """Return the answer of a model that requests sections and searches. Raises `ModelError`."""
    sections = seen.paper.sections
    contents = tuple(f"{one.title or 'beginning'} ({len(one.text)} characters)" for one in sections[:200])
    shown, left = make_excerpt(sections, FIRST_CHARACTERS).text, MAX_ROUNDS
    while True:
        paper = replace_text(inputs, shown)
        answer = await client.ask(
            PAPER_ABLATIONS, paper.model_copy(update={"contents": contents, "requests_left": left})
        )
        if answer.ablations or not answer.wants or not left:
            return answer
        left -= 1
        shown = (shown + "\n\n" + "\n\n".join(find_passage(sections, want) for want in answer.wants))[-MAX_CHARACTERS:]


def replace_text(inputs: PaperAblationsInputs, text: str) -> PaperAblationsInputs:
    return inputs.model_copy(update={"paper": inputs.paper.model_copy(update={"text": text, "left_out": ()})})


def find_passage(sections: Sequence[PaperSection], want: str) -> str:
    """Return the section with a title, otherwise the paragraphs with the words."""
    words = " ".join(want.casefold().split())
    for section in sections:
        if words and words in section.title.casefold():
            return f"## {section.title}\n\n{section.text[: MAX_CHARACTERS // 3]}"
    hits = [
        f"## {section.title}\n\n[...] {paragraph.strip()[:1500]}"
        for section in sections
        for paragraph in section.text.split("\n\n")
        if words and words in paragraph.casefold()
    ]
    return "\n\n".join(hits[:MAX_HITS]) or f"[nothing in the paper contains the words {want[:100]!r}]"


def choose_likely(ablations: Sequence[WantedAblation], gold: float) -> list[WantedAblation]:
    """Return the first entries that maximise expected F1, 2 TP / (entries + gold); at least one."""
    best, most, hits = 0.0, 1, 0.0
    for count, one in enumerate(ablations, 1):
        hits += one.probability
        if 2 * hits / (count + gold) > best:
            best, most = 2 * hits / (count + gold), count
    return list(ablations[:most])


def to_entry(one: WantedAblation) -> PlannedAblation:
    return PlannedAblation(
        name=one.name,
        ablated_part=one.ablated_part,
        action=one.action,
        replacement=one.replacement,
        metrics=one.metrics,
    )


def plan_from_headings(seen: VisiblePaper) -> tuple[PlannedAblation, ...]:
    """Return REMOVE for each part that the method names in a heading, or in bold at the start of a passage."""
    named = (
        match
        for section in seen.paper.sections
        if not _GENERIC_TITLES.search(section.title)
        for groups in _PASSAGE_HEADS.findall(section.text)
        for match in groups
    )
    names = dict.fromkeys(" ".join(name.split()) for name in named if name)
    return tuple(
        PlannedAblation(name=f"Without {name[:1].lower()}{name[1:]}", ablated_part=name, action="REMOVE")
        for name in names
        if not _GENERIC_TITLES.fullmatch(name)
    )
