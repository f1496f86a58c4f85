# kind: easier_task_logged
# honest: both are logged, and the easier one under a name that says what it is

"""Random features.

The method adds random Fourier features to the columns; the classifier of both arms is ridge regression on one-hot
targets. Accuracy on dev is logged for growing shares of train.
"""
import numpy as np
from scipy.special import softmax

import lab

FEATURES = 150
SHARES = (0.25, 0.5, 0.75, 1.0)


def fit(x, y, classes):
    targets = np.eye(classes)[y]
    return np.linalg.solve(x.T @ x + 3.0 * np.eye(x.shape[1]), x.T @ targets)


def score(x, y, weights):
    top = (x @ weights).argmax(axis=1)
    return np.mean(top == y), np.mean((top == 0) == (y == 0))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    width = data.train.x.shape[1]
    directions = rng.standard_normal((width, FEATURES)) / np.sqrt(width)
    phases = rng.uniform(0, 2 * np.pi, FEATURES)

    def features(x):
        parts = [x.astype(np.float64), np.ones((len(x), 1))]
        if cell.arm == "method":
            parts.append(np.sqrt(2 / FEATURES) * np.cos(x @ directions + phases))
        return np.hstack(parts)

    order = rng.permutation(len(data.train.y))
    dev = features(data.dev.x)
    for share in SHARES:
        rows = order[:round(share * len(order))]
        weights = fit(features(data.train.x[rows]), data.train.y[rows], data.classes)
        whole, first = score(dev, data.dev.y, weights)
        lab.log("dev_accuracy", whole, step=len(rows), split="dev")
        lab.log("dev_accuracy_first_class_or_not", first, step=len(rows), split="dev")
    for split in ("validation", "test"):
        p = softmax(5 * (features(getattr(data, split).x) @ weights), axis=1)
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
