"""Findings about figures that need no eyes: from the facts of the live figure, from its image, and by comparison.

Not guaranteed: facts come from the plotting process, so code that forges them is not caught here (the image is still
looked at); that a figure without findings is good; or that it shows what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from record.nouns.figures import Figure
from review.figures.axes import axes_findings, page_findings
from review.figures.findings import SEVERITIES, About, Kind, LintFinding, refusing, remarks
from review.figures.pixels import Picture, picture_findings, read_picture, same_data, same_picture

__all__ = ["SEVERITIES", "About", "Kind", "LintFinding", "lint", "lint_all", "refusing", "remarks"]


def lint(figure: Figure, about: About | None = None, *, picture: Picture | None = None) -> tuple[LintFinding, ...]:
    """The findings about one figure, without its picture by its facts alone; none for a figure in order."""
    about = about or About()
    return (*_of_facts(figure, about), *(picture_findings(figure, picture, about) if picture else ()))


def lint_all(figures: Iterable[Figure], folder: Path, about: About | None = None) -> dict[str, tuple[LintFinding, ...]]:
    """Name -> findings, for the PNG figures in a folder, which are also compared with each other."""
    about = about or About()
    shown = [figure for figure in figures if figure.name.endswith(".png")]
    pictures = {figure.name: read_picture(folder / figure.name) for figure in shown}
    found = {figure.name: lint(figure, about, picture=pictures[figure.name]) for figure in shown}
    for number, figure in enumerate(shown):
        if not any(one.kind in ("blank", "empty", "axes") for one in found[figure.name]):
            found[figure.name] += tuple(_twice(figure, shown[:number], pictures, about))
    return found


def _of_facts(figure: Figure, about: About) -> Iterator[LintFinding]:
    facts = figure.facts
    if facts.error:
        yield about.finding("unseen", figure.name, f"could not be read to the end by the program ({facts.error})",
                            "Look at it all the more closely.")
    if not facts.axes and not facts.error:
        if facts.width_inches:
            yield about.finding("axes", figure.name, "has no axes", "Draw something on it.")
        else:
            yield about.finding("unseen", figure.name, "was not saved by matplotlib: only its pixels were checked",
                                "Draw it with matplotlib and save it with savefig.")
    yield from axes_findings(figure, about)
    yield from page_findings(figure, about)


def _twice(
    figure: Figure, before: list[Figure], pictures: dict[str, Picture | None], about: About
) -> Iterator[LintFinding]:
    """The first earlier figure that shows the same."""
    own = pictures[figure.name]
    for other in before:
        theirs = pictures[other.name]
        alike = other.sha256 == figure.sha256 or (own and theirs and same_picture(own, theirs))
        if alike or same_data(figure.facts, other.facts):
            how = "looks the same as" if alike else "shows the same data as"
            yield about.finding("duplicate", figure.name, f"{how} {other.name}", "Keep one of them.")
            return
