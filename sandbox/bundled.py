"""Datasets that are there without a network: those of scikit-learn, and generated images.

scikit-learn is imported when one is loaded, not to list them: a test checks the numbers in the table. The images are
shapes at random places and sizes under noise: no photographs, but balanced classes and known nuisance factors (place,
size, brightness, noise). They are always the same; only how they are split depends on the seed of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples

Array = NDArray[Any]


@dataclass(frozen=True)
class Bundled:
    """A dataset that needs no network. `classes` is 0 for regression."""

    name: str
    title: str
    source: str
    examples: int
    features: int
    classes: int
    load: Callable[[], Examples]
    """All examples, always in the same order."""


def _of_sklearn(name: str, title: str, *, examples: int, features: int, classes: int = 0) -> Bundled:
    def load() -> Examples:
        from sklearn import datasets  # pyright: ignore[reportMissingTypeStubs]

        loaded = getattr(datasets, f"load_{name}")()
        return Examples(np.asarray(loaded.data, dtype=np.float64),
                        np.asarray(loaded.target, dtype=np.int64 if classes else np.float32),
                        names=tuple(str(column) for column in loaded.feature_names),
                        class_names=tuple(str(label) for label in loaded.target_names) if classes else ())

    return Bundled(name, title, f"sklearn:load_{name}", examples, features, classes, load)


SKLEARN = (
    _of_sklearn("digits", "Optical recognition of handwritten digits (8 x 8 pixels)",
                examples=1797, features=64, classes=10),
    _of_sklearn("breast_cancer", "Breast cancer Wisconsin (diagnostic)", examples=569, features=30, classes=2),
    _of_sklearn("wine", "Wine recognition (chemical analysis of three cultivars)",
                examples=178, features=13, classes=3),
    _of_sklearn("iris", "Iris plants", examples=150, features=4, classes=3),
    _of_sklearn("diabetes", "Diabetes progression (regression)", examples=442, features=10),
)


SIDE = 10
"""Pixels a side."""
PER_CLASS = 200
SHAPES_SEED = 20240917
"""Of the generator: the set is a fixed one, and only its cut depends on the seed of a run."""
NOISE = 0.07
"""Standard deviation of the noise of a pixel; black is 0 and white 1."""
RADIUS = (2.4, 3.8)
"""Pixels: the least and the largest half width."""
DRIFT = 1.2
"""Pixels: how far a shape's centre may lie from the image's, along each axis."""


def _disc(x: Array, y: Array) -> Array:
    return 1.0 - (x * x + y * y) ** 0.5


def _square(x: Array, y: Array) -> Array:
    return 0.9 - np.maximum(abs(x), abs(y))


def _plus(x: Array, y: Array) -> Array:
    return np.minimum(0.3 - np.minimum(abs(x), abs(y)), 1.0 - np.maximum(abs(x), abs(y)))


SHAPES: dict[str, Callable[[Array, Array], Array]] = {
    "disc": _disc,
    "ring": lambda x, y: 0.22 - abs(_disc(x, y) - 0.22),
    "square": _square,
    "frame": lambda x, y: 0.22 - abs(_square(x, y) - 0.22),
    "triangle": lambda x, y: np.minimum(0.8 - y, (y + 1.0 - 1.9 * abs(x)) / (1.0 + 1.9**2) ** 0.5),
    "diamond": lambda x, y: (1.15 - abs(x) - abs(y)) / 2**0.5,
    "plus": _plus,
    "cross": lambda x, y: _plus((x + y) / 2**0.5, (x - y) / 2**0.5),
}
"""How far inside a point lies, for coordinates in units of the radius, y downwards; negative is outside."""


def _load_shapes() -> Examples:
    """All images, class after class: x (examples, SIDE, SIDE, 1) uint8."""
    rng = np.random.default_rng(SHAPES_SEED)
    images = [_draw(inside, rng) for inside in SHAPES.values()]
    labels = np.repeat(np.arange(len(SHAPES), dtype=np.int64), PER_CLASS)
    return Examples(np.concatenate(images), labels, class_names=tuple(SHAPES), target="shape")


def _draw(inside: Callable[[Array, Array], Array], rng: Any) -> Array:
    """Images of one shape, (PER_CLASS, SIDE, SIDE, 1) uint8; an edge fades over one pixel."""
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


GENERATED_SHAPES = Bundled(
    "shapes", f"Generated shapes ({SIDE} x {SIDE} pixels)", f"generated:shapes:{SHAPES_SEED}",
    len(SHAPES) * PER_CLASS, SIDE * SIDE, len(SHAPES), _load_shapes)
BUNDLED = (*SKLEARN, GENERATED_SHAPES)
