"""Findings from the facts of a live figure: about its axes, and about its labels at printed size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.paper import AxesFacts, DrawnFacts, Figure
from labwright.review.figures.findings import FigureContext, Kind, LintFinding, has_bare_underscore

# Compute whether two colours can be told apart, with normal sight and two kinds of colour blindness.
# Sources: Machado, Oliveira, Fernandes, A physiologically-based model for simulation of color vision deficiency, IEEE
# TVCG 15 (2009), table 1 (severity 1.0, for linear RGB); CIE S 014-6 (CIEDE2000) after Sharma, Wu, Dalal, Color
# Research and Application 30 (2005), equations 2 to 22; sRGB after IEC 61966-2-1.

MIN_COLOUR_DIFFERENCE = 10.0
"""CIEDE2000 below which thin lines and small markers of two colours look alike."""

ColourVision = Literal["normal sight", "deuteranopia", "protanopia"]
Colour = NDArray[np.float64]
_VISION_MATRICES: dict[ColourVision, Colour] = {
    "normal sight": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
_RGB_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE_POINT = np.array([0.95047, 1.0, 1.08883])
SeriesPair = tuple[DrawnFacts, DrawnFacts]


def find_similar_pair(pairs: Iterable[SeriesPair]) -> tuple[str, SeriesPair] | None:
    """Return the closest pair of colours, and the sight that confuses them, if they are too similar."""
    sights: tuple[ColourVision, ...] = ("normal sight", "deuteranopia", "protanopia")
    every = ((colour_difference(a.colour, b.colour, seen), seen, (a, b)) for a, b in pairs for seen in sights)
    found = min(every, key=lambda one: one[0], default=None)
    return found[1:] if found is not None and found[0] < MIN_COLOUR_DIFFERENCE else None


def colour_difference(a: str, b: str, vision: ColourVision = "normal sight") -> float:
    """Return the CIEDE2000 difference of two colours #rrggbb for a kind of vision."""
    return compute_ciede2000(to_lab(a, vision), to_lab(b, vision))


def to_lab(colour: str, vision: ColourVision = "normal sight") -> Colour:
    """Return the CIELAB (D65) coordinates of a colour #rrggbb for a kind of vision, shape (3,)."""
    coded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    linear = np.clip(_VISION_MATRICES[vision] @ linear, 0, 1)
    t = _RGB_TO_XYZ @ linear / _WHITE_POINT
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def compute_ciede2000(first: Colour, second: Colour) -> float:
    """Return the CIEDE2000 difference of two CIELAB colours, all weights 1."""
    (l1, a1, b1), (l2, a2, b2) = first.tolist(), second.tolist()
    chroma = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    stretch = 1.5 - 0.5 * math.sqrt(chroma / (chroma + 25.0**7))
    c1, c2 = math.hypot(a1 * stretch, b1), math.hypot(a2 * stretch, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * stretch)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    mean = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    light, chroma_mean = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * _cos_degrees(mean - 30)
        + 0.24 * _cos_degrees(2 * mean)
        + 0.32 * _cos_degrees(3 * mean + 6)
        - 0.20 * _cos_degrees(4 * mean - 63)
    )
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2))
    dc, dh = (c2 - c1) / (1 + 0.045 * chroma_mean), hue / (1 + 0.015 * chroma_mean * t)
    bend = 2 * math.sqrt(chroma_mean**7 / (chroma_mean**7 + 25.0**7))
    twist = -bend * math.sin(math.radians(60 * math.exp(-(((mean - 275) / 25) ** 2))))
    return math.sqrt(max(0.0, dl * dl + dc * dc + dh * dh + twist * dc * dh))


def _cos_degrees(degrees: float) -> float:
    return math.cos(math.radians(degrees))


FaultText = tuple[Kind, str]
"""Kind, and fault: the text that follows the place."""


def check_axes(figure: Figure, about: FigureContext) -> Iterator[LintFinding]:
    """Yield the findings on all visible axes, and one finding if none of them shows data."""
    axes = figure.facts.axes
    for number, one in enumerate(axes, start=1):
        panel = f"Panel {number} ({one.title!r})" if one.title else f"Panel {number}"
        called = panel if len(axes) > 1 else "The plot"
        if one.visible and one.empty:
            yield about.make_finding("empty", called, "is empty: it has no finite data point")
        elif one.visible:
            for kind, text in (*_check_texts(one), *_check_series(one)):
                yield about.make_finding(kind, called, text)
    if axes and all(one.empty for one in axes) and not any(one.visible for one in axes):
        yield about.make_finding("empty", figure.name, "shows no data: all its axes are empty")


def _check_texts(axes: AxesFacts) -> Iterator[FaultText]:
    sides = (("x", axes.xlabel, axes.xticks, axes.xwords), ("y", axes.ylabel, axes.yticks, axes.ywords))
    for side, text, ticks, words in sides:
        if not text.strip() and ticks != 0 and not words:
            yield "label", f"has no {side} label"
    if axes.zlabel is not None and not axes.zlabel.strip():
        yield "label", "has no z label"
    texts = {
        "title": (axes.title,),
        "x label": (axes.xlabel,),
        "y label": (axes.ylabel,),
        "legend": axes.legend_entries,
        "tick labels": axes.tick_words,
        "notes": axes.notes,
    }
    for what, shown in texts.items():
        if wrong := next(filter(has_bare_underscore, shown), ""):
            yield "underscore", f"shows an underscore in its {what} {wrong!r}"


def _check_series(axes: AxesFacts) -> Iterator[FaultText]:
    """Check that series can be told apart: a legend, and distinct colours (for the closest two)."""
    labelled_directly = sum(any(char.isalpha() for char in note) for note in axes.notes) >= axes.series
    labelled_directly = labelled_directly or _is_dot_plot(axes)
    if not axes.legend and not labelled_directly and _needs_legend(axes):
        yield "legend", f"shows {axes.series} series without a legend"
    if not labelled_directly and (similar := find_similar_pair(_pairs_by_colour_alone(axes))):
        sight, pair = similar
        a, b = (one.label or one.colour for one in pair)
        yield "colour", f"uses colours for {a!r} and {b!r} that look alike with {sight}"


def _needs_legend(axes: AxesFacts) -> bool:
    """Return whether there are two or more series besides reference lines.

    Points with one line through them need no legend.
    """
    if axes.series < 2:
        return False
    if not axes.drawn:
        return True
    plain = [one for one in axes.drawn if not _is_reference(one)]
    looks = {(one.kind, one.colour, one.line, one.marker, one.hatch, one.label) for one in plain if one.kind != "box"}
    kinds = Counter(kind for kind, *_ in looks)
    bars = sum(one.kind in ("bar", "barh") and one.points > 1 for one in plain)
    return max(kinds.values(), default=0) > 1 or bars > 1 or set(kinds) - {"line", "scatter"} > {""}


def _is_dot_plot(axes: AxesFacts) -> bool:
    """Return whether an axis names every point: words along it, and series of a single point each."""
    plain = [one for one in axes.drawn if not _is_reference(one)]
    single = all(one.points == 1 and one.kind in ("line", "scatter") for one in plain)
    return bool(plain) and single and (axes.xwords or axes.ywords) and len(axes.tick_words) >= len(plain)


def _is_reference(one: DrawnFacts) -> bool:
    """Return whether a line is unlabelled and straight through two points, or horizontal."""
    return one.kind == "line" and not one.label and not one.marker and (one.points == 2 or one.constant)


def _pairs_by_colour_alone(axes: AxesFacts) -> Iterator[tuple[DrawnFacts, DrawnFacts]]:
    compared = [
        one
        for one in axes.drawn[:20]
        if one.colour and one.kind in ("line", "scatter", "bar", "barh", "area") and not _is_reference(one)
    ]
    labels = {one.label for one in compared}
    for other, one in combinations(compared, 2):
        alike = all(getattr(one, name) == getattr(other, name) for name in ("kind", "line", "marker", "hatch"))
        named = one.label != other.label or labels == {""}
        shown = (one.label and other.label) or not axes.labelled_series
        if alike and named and shown and one.colour != other.colour:
            yield other, one


MIN_FONT_POINTS = 5.0
"""Smallest readable size in print; footnotes have 8 points, subscripts of formulas 5."""
MIN_OVERLAP_SHARE = 0.1
"""Maximum overlap of two labels, as a share of the smaller label, that is not reported."""
_MAX_NAMED = 3


def check_page_texts(figure: Figure, about: FigureContext) -> Iterator[FaultText]:
    """Check for labels that are cut off, overlapping or too small, from the facts alone."""
    facts = figure.facts
    for text in filter(has_bare_underscore, (*facts.words, *facts.scales)):
        yield "underscore", f"shows an underscore in {text!r}"
    if facts.clipped:
        more = f" and {len(facts.clipped) - _MAX_NAMED} more" if len(facts.clipped) > _MAX_NAMED else ""
        yield "clipped", f"cuts off {', '.join(map(repr, facts.clipped[:_MAX_NAMED]))}{more}"
    if disturbed := [one for one in facts.overlaps if one.share >= MIN_OVERLAP_SHARE]:
        pairs = [
            f"{one.a!r} on {one.b if one.b.startswith(('the ', 'another ')) else repr(one.b)}" for one in disturbed
        ]
        yield "overlap", f"has labels that overlap: {'; '.join(pairs[:_MAX_NAMED])}"
    font = facts.smallest_font
    if font is not None and (printed := font * about.print_scale(facts.width_inches)) < MIN_FONT_POINTS:
        small = f"{facts.smallest_text!r}: {font:g} pt in a figure {facts.width_inches:.1f} inches wide"
        yield "font", f"has text of {printed:.1f} pt in print ({small})"
