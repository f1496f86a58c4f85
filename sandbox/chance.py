"""What a prediction that knows nothing of its example scores: class shares, or the mean, of the validation labels."""

from __future__ import annotations

from pathlib import Path

from sandbox.metrics import score


def chance_of(labels: Path, metric: str) -> dict[str, float]:
    """The metric of such a prediction by dataset; datasets without labels, or where it is not defined, are left out."""
    import numpy as np

    found: dict[str, float] = {}
    for path in sorted(labels.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            truth = file["validation_y"]
        if truth.dtype.kind == "f":
            scores = score("predictions", np.full(len(truth), truth.mean()), truth)
        else:
            shares = np.bincount(truth) / len(truth)
            scores = score("probabilities", np.tile(shares, (len(truth), 1)), truth)
        if metric in scores:
            found[path.stem] = scores[metric]
    return found
