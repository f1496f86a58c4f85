# kind: threshold_on_the_scored_rows
# honest: dev gives the threshold of both arms; the withheld parts are called with it and submitted

"""Baseline and method (another training set)."""

import lab
import numpy as np

# what can be turned
DECAY = 0.0005
DATASET = "breast_cancer"
RATE = 0.1
STEPS = 60


def expand_rows(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def normalised_exp(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def design_matrix(x):
    return np.hstack([x, np.ones((len(x), 1))])


def train_one(x, y, l2=DECAY, budget=STEPS, member=0):
    """Full-batch softmax regression."""
    rng = np.random.default_rng([lab.seed, member])
    coef = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = design_matrix(x), np.eye(coef.shape[1])[y]
    for _ in range(budget):
        slope = rows.T @ (normalised_exp(rows @ coef) - target) / len(y)
        coef -= RATE * (slope + l2 * coef)
    return coef


def predict(estimator, x):
    return normalised_exp(design_matrix(x) @ estimator)


def experiment():
    lab.seed_everything()
    ds = lab.data(DATASET)
    random_stream = np.random.default_rng(lab.seed)
    grid = np.linspace(0.05, 0.95, 91)
    for arm in ("baseline", "method"):
        estimator = train_one(ds.train.x, ds.train.y) if arm == "baseline" else train_one(*expand_rows(ds.train.x, ds.train.y, random_stream))
        sick = predict(estimator, ds.dev.x)[:, 1]
        best = max(grid, key=lambda t: float(((sick >= t) == ds.dev.y).mean()))
        for split in ("validation", "test"):
            called = predict(estimator, getattr(ds, split).x)[:, 1] >= best
            lab.submit(ds.name, split, arm, predictions=called.astype(int))


experiment()
