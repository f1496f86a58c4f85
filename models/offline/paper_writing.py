"""Roles `outline` and `write`: the study's paper, rebuilt from the whole record for every call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labwright.models.offline import plain_study
from labwright.models.offline.label_noise import paper as label_noise
from labwright.models.offline.outline import Outline
from labwright.models.offline.study import find_study_by_idea
from labwright.models.roles.paper_writing import (
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    RequiredStatement,
    SectionInputs,
    Sections,
    WriteInputs,
)
from labwright.record.schema.paper import PaperDraft, Section


def answer_outline(inputs: OutlineInputs) -> PaperOutline:
    """Return the plan of the paper that `write` gives: what its sections use, and where they report the statements."""
    record = inputs.inputs
    draft = write_draft(record)
    places = _assign_statements(record.statements, [section.title for section in draft.sections])
    sizes = [len(one.body) for one in draft.sections]
    own = not plain_study.is_plain_study(record)
    return PaperOutline(
        title=draft.title,
        estimates=label_noise.request_estimates(record) if own else (),
        explanations=label_noise.explain_effects(record, draft.sections) if own else (),
        sections=tuple(
            PlannedSection(
                title=one.title,
                claim=_first_plain_sentence(one.body) or one.title,
                keys=_find_used_keys(one.body, "result", "setup"),
                figures=_find_used_keys(one.body, "paperfigure"),
                tables=_find_used_keys(one.body, "papertable"),
                references=_find_used_keys(one.body, "citep", "citet"),
                tells=tuple(places.get(one.title, ())),
                share=size / sum(sizes),
            )
            for one, size in zip(draft.sections, sizes, strict=True)
        ),
        abstract=PlannedAbstract(
            claim=_first_plain_sentence(draft.abstract),
            keys=_find_used_keys(draft.abstract, "result", "setup"),
            tells=tuple(one.id for one in record.statements if one.abstract),
        ),
    )


def answer_write(inputs: SectionInputs) -> Sections:
    """Return the requested sections of the paper, with the captions of the figures that they place."""
    draft = write_draft(inputs.inputs)
    chosen = tuple(section for section in draft.sections if section.title in inputs.asked)
    placed = _find_used_keys("\n".join(section.body for section in chosen), "paperfigure")
    shown = {one.name for one in inputs.figures}
    return Sections(
        sections=chosen,
        abstract=draft.abstract if inputs.abstract else "",
        captions={name: text for name, text in draft.captions.items() if name in shown | set(placed)},
    )


def _assign_statements(statements: Sequence[RequiredStatement], titles: Sequence[str]) -> dict[str, list[str]]:
    """Map section titles to statements: outcomes to the results, ablations to theirs, disclosures to the last."""
    results = next((title for title in titles if "Result" in title), titles[0])
    ablations = next((title for title in titles if "Ablation" in title), results)
    found: dict[str, list[str]] = {}
    for one in statements:
        kind = one.id.partition("-")[0]
        found.setdefault({"disclosure": titles[-1], "ablation": ablations}.get(kind, results), []).append(one.id)
    return found


def _find_used_keys(text: str, *commands: str) -> tuple[str, ...]:
    pattern = rf"\\(?:{'|'.join(commands)})\{{([^}}]*)\}}"
    return tuple(dict.fromkeys(key for match in re.findall(pattern, text) for key in match.split(",")))


def _first_plain_sentence(text: str) -> str:
    """Return the first sentence without macros and formulas."""
    plain = re.sub(r"\\paragraph\{[^}]*\}", "", text)
    sentences = (one.strip() for one in re.split(r"(?<=[.?!])\s+", plain))
    return next((one for one in sentences if one and not set(one) & set("\\$")), "")


def write_draft(inputs: WriteInputs) -> PaperDraft:
    """Write the paper that the comparisons support, whatever they are. Raises `CatalogueError` for an unknown idea."""
    paper = build_outline(inputs)
    return PaperDraft(
        title=paper.title,
        abstract=paper.abstract,
        sections=tuple(Section(title=part.title, body=part.body) for part in paper.sections),
        captions={figure.name: figure.description for figure in inputs.figures},
    )


def build_outline(inputs: WriteInputs) -> Outline:
    """Build the study's paper with the rank of each paragraph. Raises `CatalogueError` for an unknown idea."""
    if plain_study.is_plain_study(inputs):
        return plain_study.build_plain_outline(inputs)
    find_study_by_idea(inputs.idea)
    return label_noise.build_label_noise_outline(inputs)
