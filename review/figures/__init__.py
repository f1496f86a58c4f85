"""Findings about figures that need no eyes: from the facts of the live figure, from its image, and by comparison.

Not guaranteed: facts come from the plotting process, so code that forges them is not caught here (the image is still
looked at); that a figure without findings is good; or that it shows what it says.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labwright.record.nouns.figures import Figure
from labwright.review.figures.axes import axes_findings, page_findings
from labwright.review.figures.findings import SEVERITIES, About, Kind, LintFinding, refusing, remarks
from labwright.review.figures.pixels import Picture, picture_findings, read_picture, same_data, same_picture

__all__ = ["SEVERITIES", "About", "Kind", "LintFinding", "lint", "lint_all", "refusing", "remarks"]


def lint(figure: Figure, about: About | None = None, *, picture: Picture | None = None) -> tuple[LintFinding, ...]:
    """The findings about one figure, without its picture by its facts alone; none for a figure in order."""
    about, facts = about or About(), figure.facts
    found: list[LintFinding] = []
    if facts.error:
        why = f"could not be read to the end by the program ({facts.error})"
        found.append(about.finding("unseen", figure.name, why, "Look at it all the more closely."))
    elif not facts.axes and facts.width_inches:
        found.append(about.finding("axes", figure.name, "has no axes", "Draw something on it."))
    elif not facts.axes:
        found.append(
            about.finding(
                "unseen",
                figure.name,
                "was not saved by matplotlib: only its pixels were checked",
                "Draw it with matplotlib and save it with savefig.",
            )
        )
    found += axes_findings(figure, about)
    found += (about.finding(kind, figure.name, text, fix) for kind, text, fix in page_findings(figure, about))
    return (*found, *(picture_findings(figure, picture, about) if picture else ()))


def lint_all(figures: Iterable[Figure], folder: Path, about: About | None = None) -> dict[str, tuple[LintFinding, ...]]:
    """Name -> findings, for the PNG figures in a folder; one that shows the same as an earlier one is a duplicate."""
    about = about or About()
    shown = [figure for figure in figures if figure.name.endswith(".png")]
    pictures = {figure.name: read_picture(folder / figure.name) for figure in shown}
    found = {figure.name: lint(figure, about, picture=pictures[figure.name]) for figure in shown}
    for number, figure in enumerate(shown):
        own = pictures[figure.name]
        nothing = any(one.kind in ("blank", "empty", "axes") for one in found[figure.name])
        for other in shown[:number] if not nothing else ():
            theirs = pictures[other.name]
            alike = other.sha256 == figure.sha256 or (own and theirs and same_picture(own, theirs))
            if alike or same_data(figure.facts, other.facts):
                how = "looks the same as" if alike else "shows the same data as"
                found[figure.name] += (
                    about.finding("duplicate", figure.name, f"{how} {other.name}", "Keep one of them."),
                )
                break
    return found
