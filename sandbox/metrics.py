"""The metrics that we compute from submitted predictions.

For class probabilities (logits go through a softmax first): accuracy, macro F1, AUROC, log loss, expected calibration
error and Brier score; for predicted classes: accuracy and macro F1; for numbers: mean squared and absolute error, R².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from record.nouns.data import MetricSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

CLIP = 1e-7
"""Probabilities are clipped to [CLIP, 1] before their logarithm is taken, so that one certain mistake costs 16.1."""
ECE_BINS = 15

METRICS: Mapping[str, MetricSpec] = {
    spec.name: spec for spec in (
        MetricSpec(name="accuracy", title="accuracy", unit="", higher_is_better=True),
        MetricSpec(name="macro_f1", title="macro F1", unit="", higher_is_better=True),
        MetricSpec(name="auroc", title="AUROC", unit="", higher_is_better=True),
        MetricSpec(name="log_loss", title="log loss", unit="nats", higher_is_better=False),
        MetricSpec(name="ece", title="expected calibration error", unit="", higher_is_better=False),
        MetricSpec(name="brier", title="Brier score", unit="", higher_is_better=False),
        MetricSpec(name="mse", title="mean squared error", unit="", higher_is_better=False),
        MetricSpec(name="mae", title="mean absolute error", unit="", higher_is_better=False),
        MetricSpec(name="r2", title="R squared", unit="", higher_is_better=True),
    )
}


def score(kind: str, values: Array, truth: Array) -> dict[str, float]:
    """Every metric that can be computed from predictions of this kind, by name.

    `values` are (n,) for "predictions", else (n, classes); `truth` is (n,), whole numbers for classes. A metric of huge
    values may not be finite.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return _score(kind, values, truth)


def _score(kind: str, values: Array, truth: Array) -> dict[str, float]:
    if kind == "predictions" and truth.dtype.kind == "f":
        return _all(_OF_NUMBERS, values, truth)
    if kind == "predictions":
        return _all(_OF_CLASSES, values, truth)
    probabilities = softmax(values) if kind == "logits" else values.astype(float)
    ranked = {} if (area := auroc(probabilities, truth)) is None else {"auroc": area}
    of_classes = _all(_OF_CLASSES, probabilities.argmax(axis=1), truth)
    return of_classes | ranked | _all(_OF_PROBABILITIES, probabilities, truth)


def softmax(logits: Array) -> Array:
    """Rows of probabilities from rows of logits."""
    import numpy as np

    powers = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def accuracy(predicted: Array, truth: Array) -> float:
    """Share of examples whose class was predicted."""
    return float((predicted == truth).mean())


def macro_f1(predicted: Array, truth: Array) -> float:
    """Unweighted mean of F1 over the classes that stand in the truth or in the predictions."""
    import numpy as np

    scores = [
        2.0 * ((predicted == c) & (truth == c)).sum() / ((predicted == c).sum() + (truth == c).sum())
        for c in np.union1d(predicted, truth)
    ]
    return float(np.mean(scores))


def auroc(probabilities: Array, truth: Array) -> float | None:
    """Area under the ROC curve: of class 1 where there are two, else the mean over classes, each against the rest.

    Ties count half. Classes that no example or every example has are left out; None where none is left.

    Source: Hanley and McNeil 1982, "The meaning and use of the area under a ROC curve" (as a Wilcoxon statistic).
    """
    import numpy as np

    classes = (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = [_area(probabilities[:, c], truth == c) for c in classes if 0 < (truth == c).sum() < len(truth)]
    return float(np.mean(areas)) if areas else None


def log_loss(probabilities: Array, truth: Array) -> float:
    """Mean negative log likelihood in nats, with probabilities clipped at `CLIP`."""
    import numpy as np

    return float(-np.log(np.clip(_of_truth(probabilities, truth), CLIP, 1.0)).mean())


def ece(probabilities: Array, truth: Array) -> float:
    """Expected calibration error of the top class over 15 equal-width bins, each open below and closed above.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3.
    """
    import numpy as np

    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == truth
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(int) - 1, 0, ECE_BINS - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=ECE_BINS)
    return float(np.abs(gaps).sum() / len(truth))


def brier(probabilities: Array, truth: Array) -> float:
    """Mean over examples of the squared distance to the one-hot truth, from 0 to 2.

    Source: Brier 1950, "Verification of forecasts expressed in terms of probability", eq. 2.
    """
    import numpy as np

    squares = np.square(probabilities).sum(axis=1) - 2.0 * _of_truth(probabilities, truth) + 1.0
    return float(squares.mean())


def mse(predicted: Array, truth: Array) -> float:
    """Mean squared error."""
    return float(((predicted - truth) ** 2).mean())


def mae(predicted: Array, truth: Array) -> float:
    """Mean absolute error."""
    return float(abs(predicted - truth).mean())


def r2(predicted: Array, truth: Array) -> float:
    """Share of the variance explained; 0 for predicting the mean. A constant truth has none: then it is 0."""
    if (truth == truth[0]).all():  # its mean may differ from it by rounding, and so would a spread from zero
        return 0.0
    return 1.0 - float(((predicted - truth) ** 2).sum()) / float(((truth - truth.mean()) ** 2).sum())


def _area(scores: Array, positive: Array) -> float:
    """The share of pairs, one example of the class and one not, that the scores order rightly."""
    import numpy as np

    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2.0)[place]
    own = int(positive.sum())
    return float((ranks[positive].sum() - own * (own + 1) / 2.0) / (own * (len(scores) - own)))


def _of_truth(probabilities: Array, truth: Array) -> Array:
    import numpy as np

    return probabilities[np.arange(len(truth)), truth]


Metric = Callable[["Array", "Array"], float]
_OF_CLASSES: dict[str, Metric] = {"accuracy": accuracy, "macro_f1": macro_f1}
_OF_PROBABILITIES: dict[str, Metric] = {"log_loss": log_loss, "ece": ece, "brier": brier}
_OF_NUMBERS: dict[str, Metric] = {"mse": mse, "mae": mae, "r2": r2}


def computed(classes: int) -> frozenset[str]:
    """The metrics that predictions can be scored by where there are so many classes; 0: where numbers are predicted."""
    return frozenset({*_OF_CLASSES, *_OF_PROBABILITIES, "auroc"} if classes else _OF_NUMBERS)


def _all(metrics: dict[str, Metric], values: Array, truth: Array) -> dict[str, float]:
    return {name: metric(values, truth) for name, metric in metrics.items()}
