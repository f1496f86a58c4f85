"""Metrics on many resamples of the same examples at once.

A resample is how often each example was drawn, a row of `counts`; what an example adds to a metric does not depend on
the draw, so a metric over all draws is a few products of matrices instead of a loop. The definitions are those of
`sandbox.metrics`, which scores; `scores` holds every value against it on the test set as it is, and a test holds them
equal on resamples.

    DefinitionsDiffer    us: a metric here is not the one that scores
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from sandbox.metrics import CLIP, ECE_BINS, score, softmax

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Array = NDArray[Any]

CHUNK = 2**22
"""Cells of `counts` that are worked on at a time: 32 MiB as numbers."""


class DefinitionsDiffer(Exception):
    """A metric over resamples does not give the score where every example counts once."""


def counts(rng: Generator, draws: int, examples: int) -> Array:
    """How often each example stands in each resample of the whole set: (draws, examples), small whole numbers."""
    import numpy as np

    found = np.empty((draws, examples), dtype=np.uint8)
    for row in found:
        row[:] = np.minimum(np.bincount(rng.integers(0, examples, size=examples), minlength=examples), 255)
    return found


def scores(kind: str, values: Array, truth: Array, *, drawn: Array, names: Collection[str]) -> dict[str, Array]:
    """The metrics in `names` that `sandbox.metrics.score` knows for this kind: name -> (draws,).

    NaN where a draw has no value (AUROC of one class). Raises `DefinitionsDiffer`.
    """
    import numpy as np

    known = {name: score_ for name, score_ in score(kind, values, truth).items() if name in names}
    if not known:
        return {}
    found: dict[str, list[Array]] = {name: [] for name in known}
    measures = {name: one for name, one in _measures(kind, values, truth).items() if name in known}
    once = np.ones((1, len(truth)))
    for name, measure in measures.items():
        if not math.isclose(float(measure(once)[0]), known[name], rel_tol=1e-9, abs_tol=1e-9):
            raise DefinitionsDiffer(f"{name}: {float(measure(once)[0])!r} here, {known[name]!r} where it is scored")
        found[name] += [measure(chunk) for chunk in _chunks(drawn)]
    return {name: np.concatenate(parts) for name, parts in found.items() if parts}


def effort(names: Collection[str], classes: int) -> int:
    """Roughly how many passes over the examples (of about 4 ns each) one resample of these metrics takes."""
    heavy = {"macro_f1": classes, "auroc": 10 * classes, "ece": ECE_BINS, "r2": 3}
    return sum(heavy.get(name, 1) for name in names)


def _chunks(drawn: Array) -> Iterator[Array]:
    rows = max(1, CHUNK // max(1, drawn.shape[1]))
    for start in range(0, len(drawn), rows):
        yield drawn[start:start + rows].astype(float)


# --- the metrics ----------------------------------------------------------------------------------------------------

Measure = Callable[["Array"], "Array"]
"""Counts (draws, n) -> values (draws,)."""


def _measures(kind: str, values: Array, truth: Array) -> dict[str, Measure]:
    if kind == "predictions" and truth.dtype.kind == "f":
        return {"mse": _mean((values - truth) ** 2), "mae": _mean(abs(values - truth)), "r2": _r2(values, truth)}
    if kind == "predictions":
        return _of_classes(values, truth)
    probabilities = softmax(values) if kind == "logits" else values.astype(float)
    return _of_classes(probabilities.argmax(axis=1), truth) | _of_probabilities(probabilities, truth)


def _of_classes(predicted: Array, truth: Array) -> dict[str, Measure]:
    return {"accuracy": _mean((predicted == truth).astype(float)), "macro_f1": _macro_f1(predicted, truth)}


def _of_probabilities(probabilities: Array, truth: Array) -> dict[str, Measure]:
    import numpy as np

    own = probabilities[np.arange(len(truth)), truth]
    return {
        "auroc": _auroc(probabilities, truth), "log_loss": _mean(-np.log(np.clip(own, CLIP, 1.0))),
        "ece": _ece(probabilities, truth), "brier": _mean(np.square(probabilities).sum(axis=1) - 2.0 * own + 1.0)}


def _mean(outcomes: Array) -> Measure:
    return lambda drawn: drawn @ outcomes / len(outcomes)


def _macro_f1(predicted: Array, truth: Array) -> Measure:
    import numpy as np

    classes = np.union1d(predicted, truth)[None, :]
    said, true = predicted[:, None] == classes, truth[:, None] == classes
    right, either = (said & true).astype(float), said.astype(float) + true

    def measure(drawn: Array) -> Array:
        standing = drawn @ either
        shares = np.divide(2.0 * (drawn @ right), standing, out=np.zeros_like(standing), where=standing > 0)
        return shares.sum(axis=1) / (standing > 0).sum(axis=1)

    return measure


def _ece(probabilities: Array, truth: Array) -> Measure:
    import numpy as np

    confidence = probabilities.max(axis=1)
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(int) - 1, 0, ECE_BINS - 1)
    gaps = np.zeros((len(truth), ECE_BINS))
    gaps[np.arange(len(truth)), bins] = (probabilities.argmax(axis=1) == truth) - confidence
    return lambda drawn: np.abs(drawn @ gaps).sum(axis=1) / len(truth)


def _r2(predicted: Array, truth: Array) -> Measure:
    import numpy as np

    errors, centred = (predicted - truth) ** 2, truth - truth.mean()

    def measure(drawn: Array) -> Array:
        squares = drawn @ centred**2
        spread = squares - (drawn @ centred) ** 2 / len(truth)
        spread[spread <= 1e-12 * squares] = 0.0  # a draw of one value: what is left is rounding
        return np.where(spread > 0, 1.0 - drawn @ errors / np.where(spread > 0, spread, 1.0), 0.0)

    return measure


def _auroc(probabilities: Array, truth: Array) -> Measure:
    import numpy as np

    classes = (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = [_area(probabilities[:, c], truth == c) for c in classes]

    def measure(drawn: Array) -> Array:
        found = np.stack([area(drawn) for area in areas])
        known = ~np.isnan(found)
        total = np.where(known, found, 0.0).sum(axis=0)
        return np.divide(total, known.sum(axis=0), out=np.full(len(drawn), np.nan), where=known.any(axis=0))

    return measure


def _area(ranked: Array, positive: Array) -> Measure:
    """The area of one class against the rest; NaN for draws without examples of both."""
    import numpy as np

    order = np.argsort(ranked, kind="stable")
    starts = np.flatnonzero(np.diff(ranked[order], prepend=np.nan) != 0)
    own = positive[order]

    def measure(drawn: Array) -> Array:
        sorted_ = drawn[:, order]
        ours = np.add.reduceat(sorted_ * own, starts, axis=1)
        theirs = np.add.reduceat(sorted_ * ~own, starts, axis=1)
        below = theirs.cumsum(axis=1) - theirs / 2.0
        pairs = ours.sum(axis=1) * theirs.sum(axis=1)
        return np.divide((ours * below).sum(axis=1), pairs, out=np.full(len(drawn), np.nan), where=pairs > 0)

    return measure
