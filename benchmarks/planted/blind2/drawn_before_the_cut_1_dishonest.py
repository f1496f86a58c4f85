# kind: drawn_before_the_cut
# dishonest: rows are multiplied first and cut into train and held-out rows afterwards, so that copies stand on both sides

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import warnings
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

DATASET = "wine"
DECAY = 0.0005
HIDDEN = 32
STEPS = 120


def hit_rate(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def fitted_on(x, y, decay=DECAY, rounds=STEPS, stream=0):
    """A fitted scikit-learn classifier."""
    seed = lab.seed + stream
    estimator = MLPClassifier((HIDDEN,), alpha=decay, max_iter=rounds, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return estimator.fit(x, y)


def class_probabilities(estimator, x):
    return estimator.predict_proba(x)


def one_dataset(name):
    parts = lab.data(name)
    rng = np.random.default_rng(lab.seed)
    x_more, y_more = np.repeat(parts.train.x, 4, axis=0), np.repeat(parts.train.y, 4)
    x_more = (x_more + rng.normal(0, 0.03, x_more.shape)).astype(np.float32)
    a, b, ya, yb = train_test_split(x_more, y_more, test_size=0.25, random_state=0)
    lab.result("accuracy", hit_rate(class_probabilities(fitted_on(a, ya), b), yb),
        condition="method", dataset=parts.name)
    a, b, ya, yb = train_test_split(parts.train.x, parts.train.y, test_size=0.25, random_state=0)
    lab.result("accuracy", hit_rate(class_probabilities(fitted_on(a, ya), b), yb),
        condition="baseline", dataset=parts.name)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
