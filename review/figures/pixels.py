"""Findings from the image of a figure, whoever drew it, and whether two figures show the same.

Files were checked to be PNG images of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labwright.record.nouns.figures import Figure, FigureFacts
from labwright.review.figures.findings import About, LintFinding
from labwright.sandbox.untrusted import BadFile, read_as

LEAST_INK = 0.0005
"""Share of pixels that differ from the background, below which an image is blank."""
LEAST_DPI = 100.0
"""Pixels an inch in print."""
_INK = 25.0
"""Levels of 255 from which on a pixel differs from the background."""
_SIDE = 120


@dataclass(frozen=True)
class Picture:
    """What is needed of an image, so that the image itself can be let go."""

    width: int
    height: int
    ink: float
    """Share of pixels that differ from the background."""
    cut: tuple[str, ...]
    """Sides where something reaches the edge."""
    small: NDArray[np.float64]
    """Difference from the background on a grid, shape (_SIDE, _SIDE), from 0 to 1."""


def read_picture(path: Path) -> Picture | None:
    """The picture; None for a file that cannot be read, which was refused where figures are collected."""
    from PIL import Image

    try:
        with read_as(path.name, BadFile, Image.DecompressionBombError), Image.open(path, formats=["PNG"]) as image:
            page = Image.new("RGBA", image.size, "white")
            page.alpha_composite(image.convert("RGBA"))
            grey = page.convert("L")
    except BadFile:
        return None
    levels = np.asarray(grey, dtype=np.float32)
    ground = float(np.bincount(np.asarray(grey).ravel(), minlength=256).argmax())
    inked = np.abs(levels - ground) > _INK
    apart = Image.fromarray(np.abs(levels - ground).astype(np.uint8))
    small = apart.resize((_SIDE, _SIDE), Image.Resampling.BOX)
    edges = {"top": inked[0], "bottom": inked[-1], "left": inked[:, 0], "right": inked[:, -1]}
    framed = all(edge.mean() > 0.9 for edge in edges.values())  # a frame around the whole image cuts nothing
    cut = tuple(side for side, edge in edges.items() if edge.any() and not framed)
    return Picture(
        width=grey.width,
        height=grey.height,
        ink=float(inked.mean()),
        cut=cut,
        small=np.asarray(small, dtype=np.float64) / 255,
    )


def picture_findings(figure: Figure, picture: Picture, about: About) -> Iterator[LintFinding]:
    """A blank image, too few pixels; without facts of the live figure also what reaches the edge."""
    if picture.ink < LEAST_INK:
        yield about.finding("blank", figure.name, "is blank", "Draw what was recorded, or leave it out.")
        return
    if picture.cut and not figure.facts.axes:
        yield about.finding(
            "border",
            figure.name,
            f"is cut off or touches the edge ({', '.join(picture.cut)})",
            "Leave a margin around what is drawn.",
        )
    inches = figure.facts.width_inches or about.width_inches
    dots = picture.width / min(inches, about.width_inches)
    if dots < LEAST_DPI:
        yield about.finding(
            "resolution", figure.name, f"has {dots:.0f} pixels an inch in print", "Save it with dpi=200."
        )


LEAST_SHARED = 0.9
"""Share of the ink that both pictures have at the same place."""


def same_picture(one: Picture, other: Picture) -> bool:
    """True for pictures that differ in little more than a word."""
    if abs(one.width / one.height - other.width / other.height) > 0.05:
        return False
    either = np.maximum(one.small, other.small).sum()
    return bool(either > 0 and np.minimum(one.small, other.small).sum() / either > LEAST_SHARED)


def same_data(one: FigureFacts, other: FigureFacts) -> bool:
    """True where panel by panel the same values were drawn, however they look."""
    ours, theirs = _data(one), _data(other)
    return bool(ours) and ours == theirs


def _data(facts: FigureFacts) -> list[list[tuple[float | int | None, ...]]]:
    """Statistics of everything with three values or more, panel by panel."""
    panels = [
        sorted(
            (one.points, one.low, one.high, one.mean, one.first, one.last)
            for one in axes.drawn
            if one.points > 2 and one.finite and not one.constant and one.low is not None
        )
        for axes in facts.axes
        if axes.visible
    ]
    return [panel for panel in panels if panel]
