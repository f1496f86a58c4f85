"""A set of small grey images that is generated: shapes at random places and sizes under noise, always the same images.

What it does not stand for: photographs. It is there to have a second set of images without a network, whose classes
are balanced and whose nuisance factors (place, size, brightness, noise) are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.sources import Examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

SIDE = 10
"""Pixels a side."""
PER_CLASS = 200
SEED = 20240917
"""Of the generator: the set is a fixed one, and only its cut depends on the seed of a run."""
NOISE = 0.07
"""Standard deviation of the noise of a pixel; black is 0 and white 1."""
RADIUS = (2.4, 3.8)
"""Pixels: the least and the largest half width."""
DRIFT = 1.2
"""Pixels: how far a shape's centre may lie from the image's, along each axis."""


# A shape gives, for coordinates in units of its radius, how far inside a point lies; negative is outside.
def _disc(x: Array, y: Array) -> Array:
    return 1.0 - (x * x + y * y) ** 0.5


def _square(x: Array, y: Array) -> Array:
    import numpy as np

    return 0.9 - np.maximum(abs(x), abs(y))


def _diamond(x: Array, y: Array) -> Array:
    return (1.15 - abs(x) - abs(y)) / 2**0.5


def _triangle(x: Array, y: Array) -> Array:
    """Pointing upwards: y grows downwards."""
    import numpy as np

    return np.minimum(0.8 - y, (y + 1.0 - 1.9 * abs(x)) / (1.0 + 1.9**2) ** 0.5)


def _plus(x: Array, y: Array) -> Array:
    import numpy as np

    return np.minimum(0.3 - np.minimum(abs(x), abs(y)), 1.0 - np.maximum(abs(x), abs(y)))


def _cross(x: Array, y: Array) -> Array:
    return _plus((x + y) / 2**0.5, (x - y) / 2**0.5)


def _ring(x: Array, y: Array) -> Array:
    return 0.22 - abs(_disc(x, y) - 0.22)


def _frame(x: Array, y: Array) -> Array:
    return 0.22 - abs(_square(x, y) - 0.22)


SHAPES: dict[str, Callable[[Array, Array], Array]] = {
    "disc": _disc, "ring": _ring, "square": _square, "frame": _frame, "triangle": _triangle, "diamond": _diamond,
    "plus": _plus, "cross": _cross,
}


@dataclass(frozen=True)
class Shapes:
    """The one dataset of this module, a `sandbox.sources.DatasetSource`."""

    name: str = "shapes"
    title: str = f"Generated shapes ({SIDE} x {SIDE} pixels)"
    source: str = f"generated:shapes:{SEED}"
    examples: int = len(SHAPES) * PER_CLASS
    features: int = SIDE * SIDE
    classes: int = len(SHAPES)

    def load(self) -> Examples:
        """All images, class after class: x (examples, SIDE, SIDE, 1) uint8."""
        import numpy as np

        rng = np.random.default_rng(SEED)
        images = [_draw(inside, rng) for inside in SHAPES.values()]
        labels = np.repeat(np.arange(len(SHAPES), dtype=np.int64), PER_CLASS)
        return Examples(np.concatenate(images), labels, class_names=tuple(SHAPES), target="shape")


def _draw(inside: Callable[[Array, Array], Array], rng: Any) -> Array:
    """Images of one shape, (PER_CLASS, SIDE, SIDE, 1) uint8; an edge fades over one pixel."""
    import numpy as np

    def drawn(low: float, high: float) -> Array:
        return rng.uniform(low, high, (PER_CLASS, 1, 1))

    radius, right, down = drawn(*RADIUS), drawn(-DRIFT, DRIFT), drawn(-DRIFT, DRIFT)
    ground, bright = drawn(0.15, 0.3), drawn(0.35, 0.55)
    places = np.arange(SIDE) - (SIDE - 1) / 2
    x, y = (places[None, None, :] - right) / radius, (places[None, :, None] - down) / radius
    cover = np.clip(0.5 + inside(x, y) * radius, 0.0, 1.0)
    noise = rng.normal(0.0, NOISE, (PER_CLASS, SIDE, SIDE))
    shade = np.clip(ground + bright * cover + noise, 0.0, 1.0)
    return np.rint(255.0 * shade).astype(np.uint8)[..., None]
