"""Datasets that are there without a network: those of scikit-learn.

It is imported when one is loaded, not to list them: a test checks the numbers in the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sandbox.data import Examples


@dataclass(frozen=True)
class Bundled:
    """A dataset that needs no network. `classes` is 0 for regression."""

    name: str
    title: str
    examples: int
    features: int
    classes: int = 0

    @property
    def source(self) -> str:
        return f"sklearn:load_{self.name}"

    def load(self) -> Examples:
        """All examples, always in the same order."""
        from sklearn import datasets  # pyright: ignore[reportMissingTypeStubs]

        loaded = getattr(datasets, f"load_{self.name}")()
        return Examples(np.asarray(loaded.data, dtype=np.float64),
                        np.asarray(loaded.target, dtype=np.int64 if self.classes else np.float32),
                        names=tuple(str(column) for column in loaded.feature_names),
                        class_names=tuple(str(label) for label in loaded.target_names) if self.classes else ())


BUNDLED = (
    Bundled("digits", "Optical recognition of handwritten digits (8 x 8 pixels)", 1797, 64, classes=10),
    Bundled("breast_cancer", "Breast cancer Wisconsin (diagnostic)", 569, 30, classes=2),
    Bundled("wine", "Wine recognition (chemical analysis of three cultivars)", 178, 13, classes=3),
    Bundled("iris", "Iris plants", 150, 4, classes=3),
    Bundled("diabetes", "Diabetes progression (regression)", 442, 10),
)
