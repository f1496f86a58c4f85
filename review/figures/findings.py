"""The kinds of findings on figures, and which of them refuse a figure.

A refused figure is redrawn; a complaint is shown to the model that reviews the figure and to the author of its next
version. Figures of the search are refused if they are unreadable or misleading; figures of the paper are refused as
well if a reviewer would criticise them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import FigureFacts
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
