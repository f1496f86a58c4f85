"""Findings from the image of a figure, and detection of duplicate figures.

Files have already been checked to be PNG images of limited size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.figures import Figure, FigureFacts
from labwright.record.untrusted_files import BadFile, raise_read_errors_as
from labwright.review.figures.findings import FigureContext, LintFinding

MIN_INK_SHARE = 0.0005
"""Minimum share of pixels that differ from the background; below it an image is blank."""
MIN_DPI = 100.0
"""Pixels per inch in print."""
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
    cut_edges: tuple[str, ...]
    """Sides where the drawing reaches the edge."""
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
    edges = {"top": inked[0], "bottom": inked[-1], "left": inked[:, 0], "right": inked[:, -1]}
    framed = all(edge.mean() > 0.9 for edge in edges.values())  # a frame around the whole image cuts nothing
    cut = tuple(side for side, edge in edges.items() if edge.any() and not framed)
    return FigureImage(
        width=grey.width,
        height=grey.height,
        ink_share=float(inked.mean()),
        cut_edges=cut,
        thumbnail=np.asarray(small, dtype=np.float64) / 255,
    )


def check_image(figure: Figure, picture: FigureImage, about: FigureContext) -> Iterator[LintFinding]:
    """Report blank images and too few pixels; without facts of the live figure, report content at the edge as well."""
    if picture.ink_share < MIN_INK_SHARE:
        yield about.make_finding("blank", figure.name, "is blank", "Draw what was recorded, or remove it.")
        return
    if picture.cut_edges and not figure.facts.axes:
        yield about.make_finding(
            "border",
            figure.name,
            f"is cut off or touches the edge ({', '.join(picture.cut_edges)})",
            "Leave a margin around the content.",
        )
    inches = figure.facts.width_inches or about.width_inches
    dots = picture.width / min(inches, about.width_inches)
    if dots < MIN_DPI:
        yield about.make_finding(
            "resolution", figure.name, f"has {dots:.0f} pixels per inch in print", "Save it with dpi=200."
        )


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


def _drawn_statistics(facts: FigureFacts) -> list[list[tuple[float | int | None, ...]]]:
    """Return statistics of all series with three or more values, by panel."""
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
