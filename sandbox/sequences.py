"""Generated arithmetic expressions as rows of tokens, labelled by the range that their value lies in.

An expression with k operators is a random tree over the digits 0 to 9 and the operators +, - and *, printed with the
brackets that it needs and no others. A dataset is a fixed list of distinct expressions, drawn from a seed of its own:
only its cut into splits depends on the seed of a run, and since no row stands twice, no row can stand in two splits.

What it does not stand for: expressions with the same value, or equal but for the order of a sum, are different rows
and may fall into different splits.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass

from sandbox.sources import Examples

SYMBOLS = " 0123456789+-*()"
"""Token -> symbol; token 0 pads."""
BOUNDS = (-10, 0, 10, 30)
"""A value belongs to the class of the bounds that it reaches: below -10 is class 0, 30 and more the last."""
CLASSES = ("below -10", "-10 to -1", "0 to 9", "10 to 29", "30 and above")
EXAMPLES = 4200
SEED = 20250407
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
    rng = random.Random(SEED + operators)
    found: dict[str, Expression] = {}
    while len(found) < count:
        one = drawn(rng, operators)
        found.setdefault(one.text, one)
    return list(found.values())


@dataclass(frozen=True)
class Arithmetic:
    """Expressions with `operators` operators, a `sandbox.sources.DatasetSource`."""

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
        return f"generated:arithmetic:{self.operators}:{SEED}"

    @property
    def features(self) -> int:
        """Tokens of a row: digits and operators, and brackets around every operator but the outermost."""
        return 4 * self.operators - 1

    def load(self) -> Examples:
        """All expressions: x (examples, tokens) int64, padded with 0; y the range of the value."""
        import numpy as np

        all_of_them = expressions(self.operators, self.examples)
        x = np.zeros((len(all_of_them), self.features), dtype=np.int64)
        for row, one in zip(x, all_of_them, strict=True):
            row[: len(one.text)] = [SYMBOLS.index(symbol) for symbol in one.text]
        y = np.array([bisect_right(BOUNDS, one.value) for one in all_of_them], dtype=np.int64)
        return Examples(x, y, class_names=CLASSES, target="range of the value")


ARITHMETIC = tuple(Arithmetic(operators) for operators in (2, 3, 4))
