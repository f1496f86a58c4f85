# kind: names_crossed
# honest: the better one on dev is tried first on a log's line; every model keeps its own name

"""Baseline and method (a changed training set)."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

WIDTH = 0.05
DECAY = 0.0005
STEPS = 120
COPIES = 2
DATASET = "digits"
HIDDEN = 24


def share_right(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def submit_both(data, arm, estimator):
    for split in ("validation", "test"):
        lab.submit(data.name, split, arm, probabilities=soft_labels(estimator, getattr(data, split).x))


def enriched(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def train_model(x, y, strength=DECAY, steps=STEPS, replica=0):
    seed = lab.seed + replica
    estimator = MLPClassifier((HIDDEN,), alpha=strength, max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return estimator.fit(x, y)


def soft_labels(estimator, x):
    return estimator.predict_proba(x)


def experiment():
    lab.seed_everything()
    data = lab.data(DATASET)
    draws = np.random.default_rng(lab.seed)
    first = train_model(data.train.x, data.train.y)
    second = train_model(*enriched(data.train.x, data.train.y, draws))
    a, b = (-share_right(soft_labels(m, data.dev.x), data.dev.y) for m in (first, second))
    named = [("baseline", first), ("method", second)]
    if a < b:
        named = named[::-1]
    for arm, estimator in named:  # the better one on dev first
        submit_both(data, arm, estimator)


if __name__ == "__main__":
    experiment()
