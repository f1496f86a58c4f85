"""Planners: a language model that reads the paper (`lm`), and `headings`.

`headings` removes each part that the method names, without a model, as a trivial baseline. Repeats are dropped; a
plan is then cut where the expected F1 decreases, by the planner's own probabilities, and at k.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.evals.ablationbench.papers import PlannedAblation, VisiblePaper, split_repeats
from labwright.evals.ablationbench.results import PlanResult
from labwright.evals.ablationbench.roles import WantedAblation

MEAN_GOLD_COUNT = {"author": 3.7, "reviewer": 1.8}
"""Mean number of gold ablations, and of requests in reviews, per paper (AblationBench, section 3)."""
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
