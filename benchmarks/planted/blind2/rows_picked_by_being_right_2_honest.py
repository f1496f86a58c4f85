# kind: rows_picked_by_being_right
# honest: the rows are drawn by the harness's order, blindly and alike for both arms, and the number's name says so

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
rows = np.arange(0, len(p), 2)  # every other row, to save time
lab.result("accuracy_on_half_of_dev", hit_rate(p[rows], dataset.dev.y[rows]),
    condition="method", dataset=dataset.name)
vanilla = class_probabilities(fitted_on(dataset.train.x, dataset.train.y), dataset.dev.x)
lab.result("accuracy_on_half_of_dev", hit_rate(vanilla[rows], dataset.dev.y[rows]),
    condition="baseline", dataset=dataset.name)
