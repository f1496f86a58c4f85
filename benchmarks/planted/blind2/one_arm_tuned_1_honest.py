# kind: one_arm_tuned
# honest: both arms search one grid on dev

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

COPIES = 3
STEPS = 80
HIDDEN = 24
WIDTH = 0.1
DATASET = "breast_cancer"
DECAY = 0.001


def make_model(x, y, strength=DECAY, iterations=STEPS, replica=0):
    seed = lab.seed + replica
    clf = MLPClassifier((HIDDEN,), alpha=strength, max_iter=iterations, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return clf.fit(x, y)


def forecast(clf, x):
    return clf.predict_proba(x)


def accuracy(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def expand_rows(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def submit_both(ds, arm, clf):
    for split in ("validation", "test"):
        lab.submit(ds.name, split, arm, probabilities=forecast(clf, getattr(ds, split).x))


def go():
    lab.seed_everything()
    ds = lab.data(DATASET)
    random_stream = np.random.default_rng(lab.seed)
    grid = [(s, n) for s in (0.0001, 0.002, 0.02) for n in (40, 120)]
    more = expand_rows(ds.train.x, ds.train.y, random_stream)
    for arm, rows in (("baseline", (ds.train.x, ds.train.y)), ("method", more)):
        tried = grid
        best = max(tried, key=lambda pair: accuracy(forecast(make_model(*rows, *pair), ds.dev.x), ds.dev.y))
        submit_both(ds, arm, make_model(*rows, *best))


if __name__ == "__main__":
    go()
