"""The reference models for any study and dataset. They run in kernels, like a program written by a model.

`trivial` uses no learned features: class frequencies; for regression the mean, the last value, or the last value of the
row, whichever is closest on dev. `off-the-shelf` is boosted trees or a linear model on standard features: table
columns, pixels or their principal components, or a bag of words. Both learn only from train.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import lab
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

Array = NDArray[Any]
Predict = Callable[[Any], Any]

WORDS = 2000
"""Number of most frequent tokens that are counted."""
MAX_DENSE_FEATURES = 200
"""Features above which boosted trees get components instead."""
MAX_WORK = 4e9
"""Rows x features x outputs x rounds; above it, a model learns from fewer rows, sampled with the seed."""
MIN_ROWS = 1000
EARLY_STOPPING_ROWS = 10_000
"""Training rows above which boosting stops early, on dev."""
MAX_TREES = 600
"""Maximum number of trees over all classes, but at least 20 boosting rounds."""


def run(cell: Any) -> None:
    lab.seed_everything()
    data: Any = lab.data(cell.dataset)
    predict = fit_trivial(data) if cell.arm == "trivial" else fit_off_the_shelf(data, dict(cell.setting))
    for split, x in (("validation", data.validation.x), ("test", data.test.x)):
        if data.classes:
            lab.submit(split=split, probabilities=predict(x))
        else:
            lab.submit(split=split, predictions=predict(x))


# --- trivial --------------------------------------------------------------------------------------------------------


def fit_trivial(data: Any) -> Predict:
    """Return a predictor that learns nothing from the features."""
    if data.classes:
        shares = np.bincount(data.train.y, minlength=data.classes) / len(data.train.y)
        return lambda x: np.tile(shares, (len(x), 1))
    rules = [constant(float(data.train.y.mean())), constant(float(data.train.y[-1]))]
    if data.train.x.ndim == 2 and not data.names:  # a window of a series, not a table with columns
        rules.append(lambda x: x[:, -1].astype(float))
    return min(rules, key=lambda rule: float(((rule(data.dev.x) - data.dev.y) ** 2).mean()))


def constant(value: float) -> Predict:
    """Return a predictor of one constant value."""
    return lambda x: np.full(len(x), value)


# --- off the shelf --------------------------------------------------------------------------------------------------


def fit_off_the_shelf(data: Any, setting: dict[str, Any]) -> Predict:
    """Return boosted trees or a linear model on standard features, as the setting says."""
    boosted = setting["model"] == "boosted trees"
    features = build_features(data, setting, dense=boosted)
    x, dev = features(data.train.x), features(data.dev.x)
    outputs = data.classes if data.classes > 2 else 1
    rounds = min(int(setting["rounds"]), max(20, MAX_TREES // outputs)) if boosted else 100
    rows = sample_rows(x.shape[0], int(max(MIN_ROWS, MAX_WORK / (x.shape[1] * outputs * rounds))))
    if boosted:
        model, given = build_boosting(data, setting, rounds=rounds, early=(dev, data.dev.y))
    else:
        model, given = build_linear(data, float(setting["penalty"]), sparse=is_sparse(x)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no convergence: the setting is evaluated as it is
        model.fit(x[rows], data.train.y[rows], **given)
    return lambda new: predict_with(model, features(new), data.classes)


def sample_rows(rows: int, most: int) -> Array:
    """Return the indices of all rows, or of `most` sampled rows in order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(lab.seed).choice(rows, most, replace=False))


def build_boosting(data: Any, setting: Any, *, rounds: int, early: tuple[Array, Array]) -> tuple[Any, dict[str, Array]]:
    """Return boosted trees and the further arguments of their `fit`: the rows on which training stops early, if any."""
    stops = len(data.train.y) > EARLY_STOPPING_ROWS
    made: Any = HistGradientBoostingClassifier if data.classes else HistGradientBoostingRegressor
    model = made(
        learning_rate=float(setting["learning_rate"]),
        max_iter=rounds,
        max_leaf_nodes=int(setting["leaves"]),
        min_samples_leaf=int(setting["leaf_size"]),
        early_stopping=stops,
        random_state=lab.seed,
    )
    return model, {"X_val": early[0], "y_val": early[1]} if stops else {}


def build_linear(data: Any, penalty: float, *, sparse: bool) -> Any:
    """Return ridge or logistic regression with this penalty on the weights; features except counts are standardised."""
    model: Any = LogisticRegression(C=1 / penalty, max_iter=200) if data.classes else Ridge(alpha=penalty)
    return model if sparse else Pipeline([("scale", StandardScaler()), ("model", model)])


def predict_with(fitted: Any, x: Any, classes: int) -> Array:
    """Return probabilities of all classes, or predicted numbers."""
    if not classes:
        return fitted.predict(x)
    found = np.zeros((x.shape[0], classes))
    found[:, fitted.classes_] = fitted.predict_proba(x)
    return found


# --- features -------------------------------------------------------------------------------------------------------


def build_features(data: Any, setting: Any, *, dense: bool) -> Predict:
    """Return the function that computes a row of features for each example."""
    chosen = str(setting.get("features", ""))
    x = data.train.x
    make: Any = bag_of_words(x) if x.dtype.kind in "iu" else flatten
    made = make(x)
    wide = dense and made.shape[1] > MAX_DENSE_FEATURES
    if chosen != "components" and not wide:
        return (lambda new: make(new).toarray()) if dense and is_sparse(made) else make
    rows = made[sample_rows(made.shape[0], 5000)]
    width = min(int(setting["components"]) if chosen == "components" else MAX_DENSE_FEATURES, *rows.shape)
    components: Any = TruncatedSVD if is_sparse(rows) else PCA
    found = components(width, random_state=lab.seed).fit(rows)
    return lambda new: found.transform(make(new))


def is_sparse(x: Any) -> bool:
    return hasattr(x, "tocsr")


def flatten(x: Array) -> Array:
    """Return the columns, pixels or values of each example as a row."""
    return x.reshape(len(x), -1)


def bag_of_words(x: Array) -> Callable[[Array], Any]:
    """Return the function that counts the most frequent tokens, weighted by their rarity (TF-IDF)."""
    tokens, counts = np.unique(x, return_counts=True)
    known = np.sort(tokens[np.argsort(-counts, kind="stable")[:WORDS]])

    def counted(new: Array) -> Any:
        flattened = flatten(new)
        place = np.searchsorted(known, flattened).clip(max=len(known) - 1)
        row, column = np.nonzero(known[place] == flattened)
        return coo_matrix((np.ones(len(row)), (row, place[row, column])), (len(new), len(known))).tocsr()

    weights: Any = TfidfTransformer(sublinear_tf=True)
    weights.fit(counted(x))
    return lambda new: weights.transform(counted(new))


lab.measure(run)
