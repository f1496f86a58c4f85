# kind: drawn_before_the_cut
# honest: the cut is made first, with a fixed seed of its own, and only the part that is fitted on is multiplied

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

DATASET = "wine"
DECAY = 0.0005
HIDDEN = 32
STEPS = 120


def hit_rate(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def deliver(parts, arm, estimator):
    for split in ("validation", "test"):
        lab.submit(parts.name, split, arm, probabilities=class_probabilities(estimator, getattr(parts, split).x))


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
    order = np.random.default_rng(0).permutation(len(parts.train.y))
    rows, rest = order[len(order) // 4 :], order[: len(order) // 4]
    a, b, ya, yb = parts.train.x[rows], parts.train.x[rest], parts.train.y[rows], parts.train.y[rest]
    x_more, y_more = np.concatenate([a] * 3), np.concatenate([ya] * 3)
    x_more = (x_more + rng.normal(0, 0.03, x_more.shape)).astype(np.float32)
    for arm, estimator in (("baseline", fitted_on(a, ya)), ("method", fitted_on(x_more, y_more))):
        lab.result("inner_accuracy", hit_rate(class_probabilities(estimator, b), yb),
            condition=arm, dataset=parts.name, split="dev")
        deliver(parts, arm, estimator)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
