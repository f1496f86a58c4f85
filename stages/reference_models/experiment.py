"""The ladder: what any study is held against, on any dataset. It runs in kernels, like a program that a model wrote.

`trivial` looks at no learned feature: the frequencies of the classes; of numbers the mean, the last value, or the last
value of the row, whichever is nearest on dev. `off-the-shelf` is boosted trees or a linear model on standard features:
a table as it is, pixels or their principal components, a bag of words, or what a frozen pretrained model makes of the
examples. Both learn from train alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
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
"""The most frequent tokens, which are counted; of boosted trees, features above `WIDE` are made components."""
WIDE = 200
WORK = 4e9
"""Rows x features x outputs x rounds: above it a model learns from fewer rows, drawn at random with the seed."""
FEWEST = 1000
EARLY = 10_000
"""Rows from which boosting stops early, on dev."""
TREES = 600
"""Of all classes together, unless that were fewer than 20 rounds."""
BATCH = 64


def run(cell: Any) -> None:
    lab.seed_everything()
    data: Any = lab.data(cell.dataset)
    predict = trivial(data) if cell.arm == "trivial" else off_the_shelf(data, dict(cell.setting))
    for split, x in (("validation", data.validation.x), ("test", data.test.x)):
        if data.classes:
            lab.submit(split=split, probabilities=predict(x))
        else:
            lab.submit(split=split, predictions=predict(x))


# --- trivial --------------------------------------------------------------------------------------------------------


def trivial(data: Any) -> Predict:
    """Predicts without learning anything of the features."""
    if data.classes:
        shares = np.bincount(data.train.y, minlength=data.classes) / len(data.train.y)
        return lambda x: np.tile(shares, (len(x), 1))
    rules = [constant(float(data.train.y.mean())), constant(float(data.train.y[-1]))]
    if data.train.x.ndim == 2 and not data.names:  # a window of a series, and no table with columns
        rules.append(lambda x: x[:, -1].astype(float))
    return min(rules, key=lambda rule: float(((rule(data.dev.x) - data.dev.y) ** 2).mean()))


def constant(value: float) -> Predict:
    """Predicts one value, whatever comes."""
    return lambda x: np.full(len(x), value)


# --- off the shelf --------------------------------------------------------------------------------------------------


def off_the_shelf(data: Any, setting: dict[str, Any]) -> Predict:
    """Boosted trees or a linear model on standard features, as the setting says."""
    boosted = setting["model"] == "boosted trees"
    features = features_of(data, setting, dense=boosted)
    x, dev = features(data.train.x), features(data.dev.x)
    outputs = data.classes if data.classes > 2 else 1
    rounds = min(int(setting["rounds"]), max(20, TREES // outputs)) if boosted else 100
    rows = sample(x.shape[0], int(max(FEWEST, WORK / (x.shape[1] * outputs * rounds))))
    model = (
        boosting(data, setting, rounds=rounds, early=(dev, data.dev.y))
        if boosted
        else linear(data, float(setting["penalty"]), sparse=is_sparse(x))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps that end before they converge: the setting is judged as it is
        model(x[rows], data.train.y[rows])
    return lambda new: predicted(model.fitted, features(new), data.classes)


class Model:
    """What is fitted by being called, and then has `fitted`."""

    def __init__(self, fitted: Any, **given: Any) -> None:
        self.fitted, self._given = fitted, given

    def __call__(self, x: Any, y: Array) -> None:
        self.fitted.fit(x, y, **self._given)


def sample(rows: int, most: int) -> Array:
    """All rows, or so many of them, in their order."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(lab.seed).choice(rows, most, replace=False))


def boosting(data: Any, setting: Any, *, rounds: int, early: tuple[Array, Array]) -> Model:
    stops = len(data.train.y) > EARLY
    made: Any = HistGradientBoostingClassifier if data.classes else HistGradientBoostingRegressor
    fitted = made(
        learning_rate=float(setting["learning_rate"]),
        max_iter=rounds,
        max_leaf_nodes=int(setting["leaves"]),
        min_samples_leaf=int(setting["leaf_size"]),
        early_stopping=stops,
        random_state=lab.seed,
    )
    return Model(fitted, X_val=early[0], y_val=early[1]) if stops else Model(fitted)


def linear(data: Any, penalty: float, *, sparse: bool) -> Model:
    """Ridge, or logistic regression with that penalty on its weights; features are standardised, but for counts."""
    fitted: Any = LogisticRegression(C=1 / penalty, max_iter=200) if data.classes else Ridge(alpha=penalty)
    return Model(fitted if sparse else Pipeline([("scale", StandardScaler()), ("model", fitted)]))


def predicted(fitted: Any, x: Any, classes: int) -> Array:
    """Probabilities of all classes, or numbers."""
    if not classes:
        return fitted.predict(x)
    found = np.zeros((x.shape[0], classes))
    found[:, fitted.classes_] = fitted.predict_proba(x)
    return found


# --- features -------------------------------------------------------------------------------------------------------


def features_of(data: Any, setting: Any, *, dense: bool) -> Predict:
    """What makes a row of features of each example."""
    chosen = str(setting.get("features", ""))
    if "@" in chosen and (embed := probe(data, chosen)) is not None:
        return embed
    x = data.train.x
    make: Any = words(x) if x.dtype.kind in "iu" else flat
    made = make(x)
    wide = dense and made.shape[1] > WIDE
    if chosen != "components" and not wide:
        return (lambda new: make(new).toarray()) if dense and is_sparse(made) else make
    rows = made[sample(made.shape[0], 5000)]
    width = min(int(setting["components"]) if chosen == "components" else WIDE, *rows.shape)
    components: Any = TruncatedSVD if is_sparse(rows) else PCA
    found = components(width, random_state=lab.seed).fit(rows)
    return lambda new: found.transform(make(new))


def is_sparse(x: Any) -> bool:
    return hasattr(x, "tocsr")


def flat(x: Array) -> Array:
    """Columns, pixels or values of each example in a row."""
    return x.reshape(len(x), -1)


def words(x: Array) -> Callable[[Array], Any]:
    """Counts of the most frequent tokens, weighted by how rare they are."""
    tokens, counts = np.unique(x, return_counts=True)
    known = np.sort(tokens[np.argsort(-counts, kind="stable")[:WORDS]])

    def counted(new: Array) -> Any:
        flattened = flat(new)
        place = np.searchsorted(known, flattened).clip(max=len(known) - 1)
        row, column = np.nonzero(known[place] == flattened)
        return coo_matrix((np.ones(len(row)), (row, place[row, column])), (len(new), len(known))).tocsr()

    weights: Any = TfidfTransformer(sublinear_tf=True)
    weights.fit(counted(x))
    return lambda new: weights.transform(counted(new))


# --- a frozen pretrained model --------------------------------------------------------------------------------------


def probe(data: Any, named: str) -> Predict | None:
    """Features of a frozen pretrained model; None where it is not for such examples."""
    model, revision = named.rsplit("@", 1)
    folder = str(lab.pretrained(model, revision))
    parts = {name: getattr(data, name).x for name in ("train", "dev", "validation", "test")}
    made: Any = lab.shared(
        f"{data.name} through {named}",
        lambda: {name: found for name, x in parts.items() if (found := embedded(folder, x)) is not None},
    )
    if not made:
        return None
    return lambda x: next(made[name] for name, known in parts.items() if known is x)


def embedded(folder: str, x: Array) -> Array | None:
    """(examples, width): the mean over places of the last hidden state; None for examples that it cannot read."""
    torch, transformers = import_module("torch"), import_module("transformers")  # only where there is a model
    net = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval().to(lab.device)
    pictures = x.ndim in (3, 4) and getattr(net.config, "image_size", None) is not None
    text = x.ndim == 2 and x.dtype.kind in "iu" and x.min() >= 0 and x.max() < getattr(net.config, "vocab_size", 0)
    if not (pictures or text):
        return None
    found: list[Array] = []
    with torch.no_grad():
        for start in range(0, len(x), BATCH):
            rows = torch.as_tensor(x[start : start + BATCH]).to(lab.device)
            given = {"pixel_values": pixels(rows, folder, net.config)} if pictures else {"input_ids": rows}
            hidden = net(**given).last_hidden_state  # (n, places, width), or of a convolution (n, width, h, w)
            found.append((hidden.flatten(2).mean(2) if hidden.ndim == 4 else hidden.mean(1)).float().cpu().numpy())
    return np.concatenate(found)


def pixels(rows: Any, folder: str, config: Any) -> Any:
    """Pictures as a model takes them: its channels and size, less its mean, over its deviation (0.5 where unknown)."""
    torch, size = import_module("torch"), config.image_size
    rows = (rows[..., None] if rows.ndim == 3 else rows).permute(0, 3, 1, 2).float()
    rows = rows.expand(-1, config.num_channels, -1, -1) if rows.shape[1] == 1 else rows
    rows = torch.nn.functional.interpolate(
        rows, (size, size) if isinstance(size, int) else tuple(size), mode="bilinear", antialias=True
    )
    known: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        known = json.loads((Path(folder) / "preprocessor_config.json").read_text())
    mean, deviation = (
        torch.tensor(known.get(name) or [0.5]).to(rows.device)[:, None, None] for name in ("image_mean", "image_std")
    )
    return (rows - mean) / deviation


lab.measure(run)
