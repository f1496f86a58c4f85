"""Roles `outline` and `write`: the study's paper, made anew from the whole record for every call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.models.offline import repository_study
from labwright.models.offline.label_noise import paper as label_noise
from labwright.models.offline.outline import Outline
from labwright.models.offline.study import study_of_idea
from labwright.models.roles.writing import (
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    RequiredStatement,
    SectionInputs,
    Sections,
    WriteInputs,
)
from labwright.record.nouns.papers import Draft, Section

FLOAT = 1200
"""Characters of text that a figure or table takes the place of."""


def outlined(inputs: OutlineInputs) -> PaperOutline:
    """The plan of the paper that `write` gives: what its sections use, and where they tell what has to be told."""
    record = inputs.inputs
    draft = write(record)
    places = _places(record.statements, [section.title for section in draft.sections])
    sizes = [len(one.body) + FLOAT * len(_used(one.body, "paperfigure", "papertable")) for one in draft.sections]
    return PaperOutline(
        title=draft.title,
        sections=tuple(
            PlannedSection(
                title=one.title,
                claim=_claim(one.body) or one.title,
                keys=_used(one.body, "result", "setup", "verdict"),
                figures=_used(one.body, "paperfigure"),
                tables=_used(one.body, "papertable"),
                references=_used(one.body, "citep", "citet"),
                tells=tuple(places.get(one.title, ())),
                share=size / sum(sizes),
            )
            for one, size in zip(draft.sections, sizes, strict=True)
        ),
        abstract=PlannedAbstract(
            claim=_claim(draft.abstract),
            keys=_used(draft.abstract, "result", "setup", "verdict"),
            tells=tuple(one.id for one in record.statements if one.abstract),
        ),
    )


def sections(inputs: SectionInputs) -> Sections:
    """The asked sections of the paper, with the captions of the figures that they place."""
    draft = write(inputs.inputs)
    chosen = tuple(section for section in draft.sections if section.title in inputs.asked)
    placed = _used("\n".join(section.body for section in chosen), "paperfigure")
    shown = {one.name for one in inputs.figures}
    return Sections(
        sections=chosen,
        abstract=draft.abstract if inputs.abstract else "",
        captions={name: text for name, text in draft.captions.items() if name in shown | set(placed)},
    )


def _places(statements: Sequence[RequiredStatement], titles: Sequence[str]) -> dict[str, list[str]]:
    """Section title -> what it tells: outcomes in the results, of ablations in theirs, disclosures in the last."""
    results = next((title for title in titles if "Result" in title), titles[0])
    ablations = next((title for title in titles if "Ablation" in title), results)
    found: dict[str, list[str]] = {}
    for one in statements:
        kind = one.id.partition("-")[0]
        found.setdefault({"told": titles[-1], "ablation": ablations}.get(kind, results), []).append(one.id)
    return found


def _used(text: str, *commands: str) -> tuple[str, ...]:
    pattern = rf"\\(?:{'|'.join(commands)})\{{([^}}]*)\}}"
    return tuple(dict.fromkeys(key for match in re.findall(pattern, text) for key in match.split(",")))


def _claim(text: str) -> str:
    """The first sentence that holds no macro and no formula."""
    plain = re.sub(r"\\paragraph\{[^}]*\}", "", text)
    sentences = (one.strip() for one in re.split(r"(?<=[.?!])\s+", plain))
    return next((one for one in sentences if one and not set(one) & set("\\$")), "")


def write(inputs: WriteInputs) -> Draft:
    """The paper that the comparisons support, whatever they are. Raises `CatalogueError` for an idea of no study."""
    paper = outline(inputs)
    return Draft(
        title=paper.title,
        abstract=paper.abstract,
        sections=tuple(Section(title=part.title, body=part.body) for part in paper.parts),
        captions={figure.name: figure.description for figure in inputs.figures},
    )


def outline(inputs: WriteInputs) -> Outline:
    """The study's paper with the rank of each paragraph. Raises `CatalogueError` for an idea of no study."""
    if repository_study.is_of_repository(inputs):
        return repository_study.outline(inputs)
    study_of_idea(inputs.idea)
    return label_noise.outline(inputs)
