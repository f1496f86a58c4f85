"""Planners: a language model that reads the paper at once (`lm`) or asks for its sections (`agent`), and `headings`.

`headings` removes each part that the method names, without a model, as a trivial baseline. Repeats are dropped; a
plan is then cut where the expected F1 decreases, by the planner's own probabilities, and at k.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.evals.ablationbench.papers import MAX_CHARACTERS, PlannedAblation, VisiblePaper, split_repeats
from labwright.evals.ablationbench.results import PlanResult
from labwright.evals.ablationbench.roles import PAPER_ABLATIONS, PaperAblations, PaperAblationsInputs, WantedAblation
from labwright.models.client import ModelClient
from labwright.review.judge.paper_reader import PaperSection, make_excerpt

MEAN_GOLD_COUNT = {"author": 3.7, "reviewer": 1.8}
"""Mean number of gold ablations, and of requests in reviews, per paper (AblationBench, section 3)."""
MAX_REQUESTS, FIRST_CHARACTERS, MAX_PASSAGES = 3, 12_000, 6
"""Requests of the agent for more text, characters that it is shown first, and passages that a search shows."""
_PASSAGE_HEADS = re.compile(
    r"\*\*([^*\n]{2,80}?)[.:]?\*\*|\\(?:sub)*(?:section|paragraph)\*?\{([^{}\n]{2,80}?)[.:]?\}"
    r"|^#{3,}[ \t]+(?:\d[\d.]*[ \t]+)?(.{2,80}?)$",
    re.MULTILINE,
)
_GENERIC_TITLES = re.compile(
    r"introduction|related work|training|overview|setup|notation|implementation|background|abstract", re.IGNORECASE
)


def cut_plan(entries: Sequence[PlannedAblation], k: int, *, faults: tuple[str, ...] = ()) -> PlanResult:
    """Return the first k entries that are not repeats."""
    kept, repeats = split_repeats(entries)
    return PlanResult(entries=kept[:k], repeats=repeats, faults=faults)


async def ask_by_section(client: ModelClient, inputs: PaperAblationsInputs, seen: VisiblePaper) -> PaperAblations:
    """Return the answer of a model that asks for sections and searches. Source: AblationBench, section 4.2
    (Agent-Planner). Raises `ModelError`."""
    sections, left = seen.paper.sections, MAX_REQUESTS
    contents = tuple(f"{one.title or 'beginning'} ({len(one.text)} characters)" for one in sections)
    shown = make_excerpt(sections, FIRST_CHARACTERS).text
    while True:
        paper = inputs.paper.model_copy(update={"text": shown, "left_out": ()})
        update = {"paper": paper, "contents": contents, "requests_left": left}
        answer = await client.ask(PAPER_ABLATIONS, inputs.model_copy(update=update))
        if answer.ablations or not answer.wants or not left:
            return answer
        shown = "\n\n".join((shown, *(find_passages(sections, one) for one in answer.wants)))[-MAX_CHARACTERS:]
        left -= 1


def find_passages(sections: Sequence[PaperSection], want: str) -> str:
    """Return the section with this title, otherwise the first paragraphs with these words."""
    words = " ".join(want.casefold().split())
    whole = [
        f"## {one.title}\n\n{one.text[: MAX_CHARACTERS // 3]}" for one in sections if words in one.title.casefold()
    ]
    hits = [text for one in sections for text in one.text.split("\n\n") if words in text.casefold()]
    return whole[0] if whole else "\n\n".join(hits[:MAX_PASSAGES]) or f"[no section has {want!r}]"


def choose_likely(ablations: Sequence[WantedAblation], gold: float) -> list[WantedAblation]:
    """Return the first entries that maximise expected F1, 2 TP / (entries + gold); at least one."""
    best, most, hits = 0.0, 1, 0.0
    for count, one in enumerate(ablations, 1):
        hits += one.probability
        if 2 * hits / (count + gold) > best:
            best, most = 2 * hits / (count + gold), count
    return list(ablations[:most])


def to_entry(one: WantedAblation) -> PlannedAblation:
    """Return an ablation that a model requests as an entry of a plan."""
    return PlannedAblation.model_validate(one, from_attributes=True)


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
