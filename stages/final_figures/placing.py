"""Which of the drawn figures the paper has, and where: by rule, so that the same figures give the same paper.

Source: AI-Scientist-v2, section 3.2 (at most twelve figures after the aggregation of plots).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.roles import FigurePart
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.figures import FinalFigure

MOST = 12
"""Figures that a paper may have."""
MOST_IN_TEXT = 4
"""Of these in the main text; the others go to the appendix."""


@dataclass(frozen=True)
class Choice:
    """The figures of the paper in their order, and why others are not among them."""

    figures: tuple[FinalFigure, ...]
    left_out: dict[str, str]


def generated(facts: Iterable[DatasetFacts]) -> frozenset[str]:
    """The datasets whose examples were made by a program."""
    return frozenset(one.name for one in facts if one.synthetic)


def choose(
    parts: Sequence[FigurePart], plan: DataPlan, synthetic: frozenset[str], widths: Mapping[str, float]
) -> Choice:
    """At most `MOST`, those meant for the main text first; of these at most `MOST_IN_TEXT` stay there.

    A figure of generated examples alone goes to the appendix, unless the study is about such: its main dataset is one.
    `widths` are inches, by name.
    """
    about_it = plan.datasets[0].name in synthetic
    asked = [_figure(one, synthetic, about_it=about_it).model_copy(update={"width": widths.get(one.name, 0.0)})
             for one in parts]
    ordered = [one for place in ("main", "appendix") for one in asked if one.placement == place]
    chosen = [_moved(one) if number >= MOST_IN_TEXT else one for number, one in enumerate(ordered[:MOST])]
    why = f"a paper has at most {MOST} figures, those of the main text first, then in their order"
    return Choice(tuple(chosen), {one.name: why for one in ordered[MOST:]})


def _figure(part: FigurePart, synthetic: frozenset[str], *, about_it: bool) -> FinalFigure:
    only = bool(part.datasets) and synthetic.issuperset(part.datasets)
    return FinalFigure(
        name=part.name, description=part.description, panels=part.panels, datasets=part.datasets, synthetic=only,
        placement="appendix" if only and not about_it else part.placement)


def _moved(figure: FinalFigure) -> FinalFigure:
    return figure.model_copy(update={"placement": "appendix"})
