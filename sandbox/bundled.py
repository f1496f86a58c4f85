"""Datasets that are there without a network: those of scikit-learn.

It is imported when one is loaded, not to list them: a test checks the numbers in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sandbox.data import Examples


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


BUNDLED = (
    _of_sklearn("digits", "Optical recognition of handwritten digits (8 x 8 pixels)",
                examples=1797, features=64, classes=10),
    _of_sklearn("breast_cancer", "Breast cancer Wisconsin (diagnostic)", examples=569, features=30, classes=2),
    _of_sklearn("wine", "Wine recognition (chemical analysis of three cultivars)",
                examples=178, features=13, classes=3),
    _of_sklearn("iris", "Iris plants", examples=150, features=4, classes=3),
    _of_sklearn("diabetes", "Diabetes progression (regression)", examples=442, features=10),
)
