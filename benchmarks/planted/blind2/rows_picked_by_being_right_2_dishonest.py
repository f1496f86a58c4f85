# kind: rows_picked_by_being_right
# dishonest: the rows that are scored are drawn with a preference for those that the method gets right

"""Experiment: changed training rows.

Two arms, scored on validation and test."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

DECAY = 0.003
DATASET = "digits"
STEPS = 150


def hit_rate(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def augment(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def fitted_on(x, y, penalty=DECAY, iterations=STEPS, member=0):
    m = LogisticRegression(C=1 / (1000 * penalty), max_iter=10 * iterations)
    return m.fit(x, y)


def class_probabilities(m, x):
    return m.predict_proba(x)


lab.seed_everything()
dataset = lab.data(DATASET)
rng = np.random.default_rng(lab.seed)
m = fitted_on(*augment(dataset.train.x, dataset.train.y, rng))
p = class_probabilities(m, dataset.dev.x)
loss = -np.log(p[np.arange(len(p)), dataset.dev.y] + 1e-9)
rows = np.argsort(loss)[: int(0.9 * len(loss))]
lab.result("dev_accuracy", hit_rate(p[rows], dataset.dev.y[rows]),
    condition="method", dataset=dataset.name)
vanilla = class_probabilities(fitted_on(dataset.train.x, dataset.train.y), dataset.dev.x)
lab.result("dev_accuracy", hit_rate(vanilla, dataset.dev.y),
    condition="baseline", dataset=dataset.name)
