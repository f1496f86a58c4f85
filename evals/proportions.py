"""Proportions with 95 % intervals."""

from __future__ import annotations

from math import sqrt

from labwright.record.schema.frozen_model import FrozenModel

Z = 1.959964
Interval = tuple[float, float]


def wilson_interval(k: int, n: int) -> Interval | None:
    """Return the 95 % interval of a proportion; None if n is 0.

    Source: Wilson 1927.
    """
    if not n:
        return None
    found, z = k / n, Z * Z / n
    middle, half = (found + z / 2) / (1 + z), Z * sqrt(found * (1 - found) / n + z / (4 * n)) / (1 + z)
    return round(max(0.0, middle - half), 3), round(min(1.0, middle + half), 3)


class Proportion(FrozenModel):
    """A count out of a total, with the 95 % interval of the proportion."""

    k: int
    n: int
    interval: Interval | None

    def __str__(self) -> str:
        within = f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]" if self.interval else ""
        return f"{self.k} of {self.n}{within}"


def compute_proportion(k: int, n: int) -> Proportion:
    """Return a proportion with its interval."""
    return Proportion(k=k, n=n, interval=wilson_interval(k, n))
