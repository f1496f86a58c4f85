"""Whether two figures show the same: by their pixels, or by the data that were drawn."""

from __future__ import annotations

import numpy as np

from record.nouns.figures import FigureFacts
from review.figures.pixels import Picture

FEWEST_BITS = 24
"""Of 255 bits of the hash, those in which pictures of the same may differ."""
LEAST_SHARED = 0.9
"""Share of the ink that both pictures have at the same place. The hash alone would call all line plots on a white
ground alike."""


def same_picture(one: Picture, other: Picture) -> bool:
    """True for pictures that differ in little more than a word."""
    if abs(one.width / one.height - other.width / other.height) > 0.05:
        return False
    if int((one.hash != other.hash).sum()) > FEWEST_BITS:
        return False
    either = np.maximum(one.small, other.small).sum()
    return bool(either > 0 and np.minimum(one.small, other.small).sum() / either > LEAST_SHARED)


def same_data(one: FigureFacts, other: FigureFacts) -> bool:
    """True where panel by panel the same values were drawn, however they look."""
    ours, theirs = _data(one), _data(other)
    return bool(ours) and ours == theirs


def _data(facts: FigureFacts) -> list[list[tuple[float | int | None, ...]]]:
    """Statistics of everything with three values or more, panel by panel."""
    panels = [sorted((one.points, one.low, one.high, one.mean, one.first, one.last) for one in axes.drawn
                     if one.points > 2 and one.finite and not one.constant and one.low is not None)
              for axes in facts.axes if axes.visible]
    return [panel for panel in panels if panel]
