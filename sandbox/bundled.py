"""Datasets that come with scikit-learn: real, small, and there without a network.

scikit-learn is imported when one is loaded, not to list them: the numbers in the table are checked by a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.sources import Examples


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
        import numpy as np
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
