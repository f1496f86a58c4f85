"""Check figures without a model, using facts about the live figure, its image, and other figures.

A refused figure is redrawn; a complaint is shown to the model that reviews the figure and to the author of its next
version. Figures of the search are refused if they are unreadable or misleading; figures of the paper are refused as
well if a reviewer would criticise them.

Limits: facts come from the plotting process, so code that forges them is not caught here (a model still reviews the
image); a figure without findings may still be poor or misleading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import AxesFacts, DrawnFacts, Figure, FigureFacts
from labwright.record.untrusted_files import BadFile, raise_read_errors_as

Kind = Literal[
    "axes", "empty", "blank", "label", "legend", "underscore", "clipped", "overlap", "font", "colour", "duplicate"
]
Severity = Literal["refuse", "complain"]

_REFUSED_IN_PAPERS: tuple[Kind, ...] = ("font", "colour", "duplicate")
SEVERITIES: dict[Kind, tuple[Severity, Severity]] = {
    kind: ("complain" if kind in _REFUSED_IN_PAPERS else "refuse", "refuse") for kind in get_args(Kind)
}
"""Severity of each kind for figures of the search, and of the paper. docs/paper.md shows this table."""

_FIXES: dict[Kind, str] = {
    "axes": "Draw a plot on it.",
    "empty": "Remove it, or draw what was recorded.",
    "blank": "Draw what was recorded, or remove it.",
    "label": "Describe in words what the axis shows.",
    "legend": "Label each series and call legend().",
    "underscore": "Write words.",
    "clipped": "Make room with layout='constrained', a larger figure or shorter labels.",
    "overlap": "Make room, or shorten, rotate or remove labels.",
    "font": "Draw it {width:g} inches wide or less, with fonts of 7 pt or more.",
    "colour": "Use other colours, and different markers, line styles or hatches.",
    "duplicate": "Keep one of them.",
}


class LintFinding(FrozenModel):
    """A finding. Its text has two sentences: place and fault, then the fix."""

    kind: Kind
    severity: Severity
    where: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where} {self.text}. {self.fix}"


@dataclass(frozen=True)
class FigureContext:
    """Facts about a figure's purpose that determine what it must contain."""

    in_paper: bool = False
    width_inches: float = 5.5
    """Maximum printed width; a smaller figure keeps its size."""

    def make_finding(self, kind: Kind, where: str, text: str) -> LintFinding:
        """Return the finding with its severity in this context and its fix."""
        severity = SEVERITIES[kind][self.in_paper]
        fix = _FIXES[kind].format(width=self.width_inches)
        return LintFinding(kind=kind, severity=severity, where=where, text=text, fix=fix)

    def print_scale(self, width: float) -> float:
        """Return the scale factor in print for a figure of this width in inches; 1.0 if the width is unknown."""
        return min(1.0, self.width_inches / width) if width > 0 else 1.0


def list_refusals(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Return the findings that refuse the figure, as text."""
    return tuple(str(one) for one in findings if one.severity == "refuse")


def list_remarks(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Return the complaints, as text."""
    return tuple(str(one) for one in findings if one.severity == "complain")


def has_bare_underscore(text: str) -> bool:
    """Return whether a string has an underscore outside math mode."""
    return "_" in ("".join(text.split("$")[::2]) if text.count("$") % 2 == 0 else text)


# Measurements of the image of a figure, and detection of duplicate figures. Files have already been checked to be PNG
# images of limited size.

MIN_INK_SHARE = 0.0005
"""Minimum share of pixels that differ from the background; below it an image is blank."""
_INK_CONTRAST = 25.0
"""Difference (0 to 255) above which a pixel differs from the background."""
_THUMBNAIL_SIDE = 120


@dataclass(frozen=True)
class FigureImage:
    """Measurements of an image that are kept after the image is discarded."""

    width: int
    height: int
    ink_share: float
    """Share of pixels that differ from the background."""
    thumbnail: NDArray[np.float64]
    """Difference from the background on a grid, shape (_SIDE, _SIDE), from 0 to 1."""


def read_figure_image(path: Path) -> FigureImage | None:
    """Read a picture; None if it cannot be read (this is reported when figures are collected)."""
    from PIL import Image

    try:
        with raise_read_errors_as(path.name), Image.open(path, formats=["PNG"]) as image:
            page = Image.new("RGBA", image.size, "white")
            page.alpha_composite(image.convert("RGBA"))
            grey = page.convert("L")
    except BadFile:
        return None
    levels = np.asarray(grey, dtype=np.float32)
    ground = float(np.bincount(np.asarray(grey).ravel(), minlength=256).argmax())
    inked = np.abs(levels - ground) > _INK_CONTRAST
    apart = Image.fromarray(np.abs(levels - ground).astype(np.uint8))
    small = apart.resize((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE), Image.Resampling.BOX)
    thumbnail = np.asarray(small, dtype=np.float64) / 255
    return FigureImage(grey.width, grey.height, float(inked.mean()), thumbnail)


MIN_SHARED_INK = 0.9
"""Share of ink that two pictures have in the same places."""


def is_same_picture(first: FigureImage, second: FigureImage) -> bool:
    """Return whether two pictures differ by hardly more than a word."""
    if abs(first.width / first.height - second.width / second.height) > 0.05:
        return False
    either = np.maximum(first.thumbnail, second.thumbnail).sum()
    return bool(either > 0 and np.minimum(first.thumbnail, second.thumbnail).sum() / either > MIN_SHARED_INK)


def is_same_data(first: FigureFacts, second: FigureFacts) -> bool:
    """Return whether two figures draw the same values in every panel, whatever their style, over ranges of x that
    overlap."""
    ours, theirs = _drawn_statistics(first), _drawn_statistics(second)
    ranges = zip(*([axes.xlimits for axes in facts.axes if axes.visible] for facts in (first, second)), strict=False)
    apart = any(a and b and (max(a) < min(b) or max(b) < min(a)) for a, b in ranges)
    return bool(ours) and ours == theirs and not apart


def _drawn_statistics(facts: FigureFacts) -> list[list[tuple[float | None, ...]]]:
    """Return statistics of all series with three or more values, by panel."""
    panels: list[list[tuple[float | None, ...]]] = [
        sorted(
            (one.points, one.low, one.high, one.mean, one.first, one.last)
            for one in axes.drawn
            if one.points > 2 and one.finite and not one.constant and one.low is not None
        )
        for axes in facts.axes
        if axes.visible
    ]
    return [panel for panel in panels if panel]


# Compute whether two colours can be told apart, with normal sight and two kinds of colour blindness.
# Sources: Machado, Oliveira, Fernandes, A physiologically-based model for simulation of color vision deficiency, IEEE
# TVCG 15 (2009), table 1 (severity 1.0, for linear RGB); sRGB after IEC 61966-2-1.

MIN_COLOUR_DIFFERENCE = 15.0
"""Distance in CIELAB below which thin lines and small markers of two colours look alike. Of 837 pairs within common
palettes, 98 % are on the same side as with a CIEDE2000 of 10."""

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
    """Return the distance of two colours #rrggbb in CIELAB (1976) for a kind of vision."""
    return float(np.linalg.norm(to_lab(a, vision) - to_lab(b, vision)))


def to_lab(colour: str, vision: ColourVision = "normal sight") -> Colour:
    """Return the CIELAB (D65) coordinates of a colour #rrggbb for a kind of vision, shape (3,)."""
    coded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    linear = np.clip(_VISION_MATRICES[vision] @ linear, 0, 1)
    t = _RGB_TO_XYZ @ linear / _WHITE_POINT
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


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
