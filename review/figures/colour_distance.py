"""Compute whether two colours can be told apart: with normal sight, two kinds of colour blindness, and in grey.

Sources: Machado, Oliveira, Fernandes, A physiologically-based model for simulation of color vision deficiency, IEEE
TVCG 15 (2009), table 1 (severity 1.0, for linear RGB); CIE S 014-6 (CIEDE2000) after Sharma, Wu, Dalal, Color
Research and Application 30 (2005), equations 2 to 22; sRGB after IEC 61966-2-1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.figures import DrawnFacts

MIN_COLOUR_DIFFERENCE = 10.0
"""CIEDE2000 below which thin lines and small markers of two colours look alike."""
MIN_GREY_DIFFERENCE = 6.0
"""Difference in lightness (CIELAB L*) below which two colours look alike in grey."""

ColourVision = Literal["normal sight", "deuteranopia", "protanopia", "grey"]
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


def find_similar_pairs(
    pairs: Iterable[SeriesPair],
) -> Iterator[tuple[Literal["colour", "grey"], ColourVision, SeriesPair]]:
    """Yield the closest pair of colours if they are too similar: at most one pair in colour and one in grey."""
    every = list(pairs)
    sights: tuple[ColourVision, ...] = ("normal sight", "deuteranopia", "protanopia")
    distances: list[tuple[float, ColourVision, SeriesPair]] = [
        (colour_difference(a.colour, b.colour, seen), seen, (a, b)) for a, b in every for seen in sights
    ]
    if distances:
        distance, sight, closest = min(distances, key=lambda one: one[0])
        if distance < MIN_COLOUR_DIFFERENCE:
            yield "colour", sight, closest
            return
    grey = min(
        ((abs(to_lab(a.colour)[0] - to_lab(b.colour)[0]), number) for number, (a, b) in enumerate(every)), default=None
    )
    if grey is not None and grey[0] < MIN_GREY_DIFFERENCE:
        yield "grey", "grey", every[grey[1]]


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
