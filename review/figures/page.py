"""Findings about a figure as a whole: where its texts stand, and what is left of them in print."""

from __future__ import annotations

from collections.abc import Iterator

from record.nouns.figures import Figure, FigureFacts
from review.figures.findings import About, LintFinding
from review.figures.words import lacks_unit, underscored

LEAST_POINTS = 5.0
"""Size in print below which letters are not read; footnotes have 8, scripts of formulas 5."""
LEAST_SHARE = 0.1
"""Share of the smaller of two texts that lies on the other, from which on they disturb each other."""
_NAMED = 3


def page_findings(figure: Figure, about: About) -> Iterator[LintFinding]:
    """Texts cut off, on each other, too small; by the facts alone."""
    facts = figure.facts
    for text in filter(underscored, (*facts.words, *facts.scales)):
        yield about.finding("underscore", figure.name, f"shows an underscore in {text!r}", "Write words.")
    for label in facts.scales:
        if lacks_unit(label, about.metrics):
            yield about.finding("unit", figure.name, f"names no unit at its colour bar {label!r}",
                                "Add it in brackets, e.g. 'Time (s)'.")
    if facts.clipped:
        yield about.finding("clipped", figure.name, f"cuts off {_some(facts.clipped)}",
                            "Make room with layout='constrained', a larger figure or shorter words.")
    disturbed = [one for one in facts.overlaps if one.share >= LEAST_SHARE]
    if disturbed:
        pairs = tuple(f"{one.a!r} on {one.b if one.b.startswith(('the ', 'another ')) else repr(one.b)}"
                      for one in disturbed)
        yield about.finding("overlap", figure.name, f"has texts that overlap: {'; '.join(pairs[:_NAMED])}",
                            "Make room, shorten, turn or leave out labels.")
    yield from _font(facts, figure.name, about)


def _font(facts: FigureFacts, name: str, about: About) -> Iterator[LintFinding]:
    if facts.smallest_font is None:
        return
    printed = facts.smallest_font * about.printed(facts.width_inches)
    if printed < LEAST_POINTS:
        yield about.finding(
            "font", name,
            f"has text of {printed:.1f} pt in print ({facts.smallest_text!r}: {facts.smallest_font:g} pt in a figure "
            f"{facts.width_inches:.1f} inches wide)",
            f"Draw it {about.width_inches:g} inches wide or less, with fonts of 7 pt or more.")


def _some(texts: tuple[str, ...]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(repr(text) for text in texts[:_NAMED]) + more
