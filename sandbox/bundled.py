"""Datasets that are there without a network: those of scikit-learn, and generated images and expressions.

scikit-learn is imported when one is loaded, not to list them: a test checks the numbers in the table. Generated sets
are always the same; only how they are split depends on the seed of a run.

The images are shapes at random places and sizes under noise: no photographs, but balanced classes and known nuisance
factors (place, size, brightness, noise). The expressions are rows of tokens, labelled by the range that their value
lies in; no row stands twice, but expressions of the same value, or equal but for the order of a sum, are different rows
and may fall into different splits.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sandbox.data import Examples

Array = NDArray[Any]

@dataclass(frozen=True)
class Bundled:
    """A dataset of `sklearn.datasets`. `classes` is 0 for regression."""

    name: str
    title: str
    loader: str
    examples: int
    features: int
    classes: int

    @property
    def source(self) -> str:
        return f"sklearn:{self.loader}"

    def load(self) -> Examples:
        """All examples in scikit-learn's order."""
        from sklearn import datasets  # pyright: ignore[reportMissingTypeStubs]

        loaded = getattr(datasets, self.loader)()
        classes = () if self.classes == 0 else tuple(str(name) for name in loaded.target_names)
        return Examples(np.asarray(loaded.data, dtype=np.float64),
                        np.asarray(loaded.target, dtype=np.float32 if self.classes == 0 else np.int64),
                        names=tuple(str(name) for name in loaded.feature_names), class_names=classes)


BUNDLED = (
    Bundled("digits", "Optical recognition of handwritten digits (8 x 8 pixels)", "load_digits", 1797, 64, 10),
    Bundled("breast_cancer", "Breast cancer Wisconsin (diagnostic)", "load_breast_cancer", 569, 30, 2),
    Bundled("wine", "Wine recognition (chemical analysis of three cultivars)", "load_wine", 178, 13, 3),
    Bundled("iris", "Iris plants", "load_iris", 150, 4, 3),
    Bundled("diabetes", "Diabetes progression (regression)", "load_diabetes", 442, 10, 0),
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


# A shape gives, for coordinates in units of its radius, how far inside a point lies; negative is outside.
def _disc(x: Array, y: Array) -> Array:
    return 1.0 - (x * x + y * y) ** 0.5


def _square(x: Array, y: Array) -> Array:
    return 0.9 - np.maximum(abs(x), abs(y))


def _diamond(x: Array, y: Array) -> Array:
    return (1.15 - abs(x) - abs(y)) / 2**0.5


def _triangle(x: Array, y: Array) -> Array:
    """Pointing upwards: y grows downwards."""
    return np.minimum(0.8 - y, (y + 1.0 - 1.9 * abs(x)) / (1.0 + 1.9**2) ** 0.5)


def _plus(x: Array, y: Array) -> Array:
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
    """The one dataset of this module, a `sandbox.data.DatasetSource`."""

    name: str = "shapes"
    title: str = f"Generated shapes ({SIDE} x {SIDE} pixels)"
    source: str = f"generated:shapes:{SHAPES_SEED}"
    examples: int = len(SHAPES) * PER_CLASS
    features: int = SIDE * SIDE
    classes: int = len(SHAPES)

    def load(self) -> Examples:
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


SYMBOLS = " 0123456789+-*()"
"""Token -> symbol; token 0 pads."""
BOUNDS = (-10, 0, 10, 30)
"""A value belongs to the class of the bounds that it reaches: below -10 is class 0, 30 and more the last."""
CLASSES = ("below -10", "-10 to -1", "0 to 9", "10 to 29", "30 and above")
EXAMPLES = 4200
ARITHMETIC_SEED = 20250407
"""Of the generator, together with the number of operators."""


@dataclass(frozen=True)
class Expression:
    """Its text, its value, and how strongly its outermost operator binds: 1 sums, 2 products, 3 digits."""

    text: str
    value: int
    binding: int


def drawn(rng: random.Random, operators: int) -> Expression:
    """A random expression with that many operators: the outermost one is drawn first, then how many go to its left."""
    if operators == 0:
        digit = rng.randrange(10)
        return Expression(str(digit), digit, 3)
    sign = rng.choice("+-*")
    left = rng.randrange(operators)
    return joined(drawn(rng, left), sign, drawn(rng, operators - 1 - left))


def joined(a: Expression, sign: str, b: Expression) -> Expression:
    """`a sign b`, with brackets where it would read as something else: (1+2)*3, 1-(2+3)."""
    binding = 2 if sign == "*" else 1
    first = a.text if a.binding >= binding else f"({a.text})"
    second = b.text if b.binding > binding or (b.binding == binding and sign != "-") else f"({b.text})"
    value = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}[sign]
    return Expression(f"{first}{sign}{second}", value, binding)


def expressions(operators: int, count: int = EXAMPLES) -> list[Expression]:
    """Distinct expressions in the order in which they were drawn, always the same."""
    rng = random.Random(ARITHMETIC_SEED + operators)
    found: dict[str, Expression] = {}
    while len(found) < count:
        one = drawn(rng, operators)
        found.setdefault(one.text, one)
    return list(found.values())


@dataclass(frozen=True)
class Arithmetic:
    """Expressions with `operators` operators, a `sandbox.data.DatasetSource`."""

    operators: int
    examples: int = EXAMPLES
    classes: int = len(CLASSES)

    @property
    def name(self) -> str:
        return f"arithmetic_{self.operators}"

    @property
    def title(self) -> str:
        return f"Arithmetic expressions with {self.operators} operators"

    @property
    def source(self) -> str:
        return f"generated:arithmetic:{self.operators}:{ARITHMETIC_SEED}"

    @property
    def features(self) -> int:
        """Tokens of a row: digits and operators, and brackets around every operator but the outermost."""
        return 4 * self.operators - 1

    def load(self) -> Examples:
        """All expressions: x (examples, tokens) int64, padded with 0; y the range of the value."""
        all_of_them = expressions(self.operators, self.examples)
        x = np.zeros((len(all_of_them), self.features), dtype=np.int64)
        for row, one in zip(x, all_of_them, strict=True):
            row[: len(one.text)] = [SYMBOLS.index(symbol) for symbol in one.text]
        y = np.array([bisect_right(BOUNDS, one.value) for one in all_of_them], dtype=np.int64)
        return Examples(x, y, class_names=CLASSES, target="range of the value")


ARITHMETIC = tuple(Arithmetic(operators) for operators in (2, 3, 4))
