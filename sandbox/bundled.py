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
    """A dataset that needs no network, a `sandbox.data.DatasetSource`. `classes` is 0 for regression."""

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
    distinct: dict[str, Expression] = {}
    while len(distinct) < count:
        expression = drawn(rng, operators)
        distinct.setdefault(expression.text, expression)
    return list(distinct.values())


def _arithmetic(operators: int) -> Bundled:
    """Expressions as x (examples, tokens) int64, padded with 0; y is the range of the value."""
    tokens = 4 * operators - 1  # digits and operators, and brackets around every operator but the outermost

    def load() -> Examples:
        rows = expressions(operators)
        x = np.zeros((len(rows), tokens), dtype=np.int64)
        for row, expression in zip(x, rows, strict=True):
            row[: len(expression.text)] = [SYMBOLS.index(symbol) for symbol in expression.text]
        y = np.array([bisect_right(BOUNDS, expression.value) for expression in rows], dtype=np.int64)
        return Examples(x, y, class_names=CLASSES, target="range of the value")

    return Bundled(f"arithmetic_{operators}", f"Arithmetic expressions with {operators} operators",
                   f"generated:arithmetic:{operators}:{ARITHMETIC_SEED}", EXAMPLES, tokens, len(CLASSES), load)


BUNDLED = (*SKLEARN, GENERATED_SHAPES, *map(_arithmetic, (2, 3, 4)))
