"""Findings about a figure that need no eyes: from the facts that the live matplotlib figure gave when it was saved."""

from __future__ import annotations

from collections.abc import Iterator

from record.nouns import AxesFacts, Figure


def lint(figure: Figure) -> tuple[str, ...]:
    """One clear sentence a finding, naming the axes; none for a figure in order."""
    axes = figure.facts.axes
    if not axes:
        return (f"{figure.name} has no axes: draw it with matplotlib and save it with savefig.",)
    return tuple(finding for number, one in enumerate(axes, start=1) if one.visible
                 for finding in _findings(one, _called(one, number, len(axes)))) or _nothing_shown(figure)


def _nothing_shown(figure: Figure) -> tuple[str, ...]:
    """Axes that are switched off are no plots, but a figure of nothing else must show something."""
    if all(one.empty for one in figure.facts.axes):
        return (f"{figure.name} shows no data: all its axes are empty.",)
    return ()


def _called(axes: AxesFacts, number: int, count: int) -> str:
    if count == 1:
        return "The plot"
    return f"Panel {number} ({axes.title!r})" if axes.title else f"Panel {number}"


def _findings(axes: AxesFacts, called: str) -> Iterator[str]:
    if axes.empty:
        yield f"{called} is empty: it holds no finite data point."
        return
    for which, text in (("x", axes.xlabel), ("y", axes.ylabel)):
        if not text.strip():
            yield f"{called} has no {which} label."
    for what, text in (("title", axes.title), ("x label", axes.xlabel), ("y label", axes.ylabel)):
        if "_" in _visible(text):
            yield f"{called} shows an underscore in its {what} {text!r}: write words."
    if axes.series > 1 and not axes.legend:
        yield f"{called} shows {axes.series} series without a legend."


def _visible(text: str) -> str:
    """The text without its mathematics, where an underscore sets an index."""
    return "".join(text.split("$")[::2]) if text.count("$") % 2 == 0 else text
