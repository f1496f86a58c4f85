"""Whether training curves had levelled off, computed from what was logged."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

SHORTEST = 5
"""Steps below which a curve says nothing."""

FLAT = 0.05
"""A curve has levelled off when its last fifth moves by less than this share of its whole range."""


def converged(measurements: Path) -> bool | None:
    """Whether every logged loss curve has levelled off; None when none long enough was logged.

    A curve is all values of one (name, condition, dataset, split) with "loss" in its name, by step.
    """
    curves: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    if measurements.is_file():
        for line in measurements.read_text().splitlines():
            one = json.loads(line)
            if one.get("step") is not None and "loss" in one["name"]:
                key = (one["name"], one["condition"], one["dataset"], one["split"])
                curves[key].append((one["step"], one["value"]))
    long = [[value for _, value in sorted(curve)] for curve in curves.values() if len(curve) >= SHORTEST]
    return all(_levelled(curve) for curve in long) if long else None


def _levelled(curve: list[float]) -> bool:
    tail = curve[-max(2, len(curve) // 5):]
    whole = max(curve) - min(curve)
    return whole == 0 or (max(tail) - min(tail)) <= FLAT * whole
