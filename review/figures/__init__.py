"""Check figures without a model, using facts about the live figure, its image, and other figures.

Limits: facts come from the plotting process, so code that forges them is not caught here (a model still reviews the
image); a figure without findings may still be poor or misleading.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labwright.record.schema.paper import Figure
from labwright.review.figures.axes import check_axes, check_page_texts
from labwright.review.figures.findings import (
    MIN_INK_SHARE,
    SEVERITIES,
    FigureContext,
    FigureImage,
    Kind,
    LintFinding,
    is_same_data,
    is_same_picture,
    list_refusals,
    list_remarks,
    read_figure_image,
)

__all__ = [
    "SEVERITIES",
    "FigureContext",
    "Kind",
    "LintFinding",
    "lint_figure",
    "lint_figure_folder",
    "list_refusals",
    "list_remarks",
]


def lint_figure(
    figure: Figure, about: FigureContext | None = None, *, picture: FigureImage | None = None
) -> tuple[LintFinding, ...]:
    """Return the findings on one figure; without its picture, only those from its facts."""
    about, facts = about or FigureContext(), figure.facts
    found: list[LintFinding] = []
    if not facts.error and not facts.axes and facts.width_inches:
        found.append(about.make_finding("axes", figure.name, "has no axes"))
    found += check_axes(figure, about)
    found += (about.make_finding(kind, figure.name, text) for kind, text in check_page_texts(figure, about))
    if picture is not None and picture.ink_share < MIN_INK_SHARE:
        found.append(about.make_finding("blank", figure.name, "is blank"))
    return tuple(found)


def lint_figure_folder(
    figures: Iterable[Figure], folder: Path, about: FigureContext | None = None
) -> dict[str, tuple[LintFinding, ...]]:
    """Return the findings on the PNG figures in a folder, by name; a figure equal to an earlier one is a duplicate."""
    about = about or FigureContext()
    shown = [figure for figure in figures if figure.name.endswith(".png")]
    pictures = {figure.name: read_figure_image(folder / figure.name) for figure in shown}
    found = {figure.name: lint_figure(figure, about, picture=pictures[figure.name]) for figure in shown}
    for number, figure in enumerate(shown):
        own = pictures[figure.name]
        nothing = any(one.kind in ("blank", "empty", "axes") for one in found[figure.name])
        for other in shown[:number] if not nothing else ():
            theirs = pictures[other.name]
            alike = other.sha256 == figure.sha256 or (own and theirs and is_same_picture(own, theirs))
            if alike or is_same_data(figure.facts, other.facts):
                how = "looks the same as" if alike else "shows the same data as"
                found[figure.name] += (about.make_finding("duplicate", figure.name, f"{how} {other.name}"),)
                break
    return found
