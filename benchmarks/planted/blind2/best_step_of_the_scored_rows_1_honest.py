# kind: best_step_of_the_scored_rows
# honest: the number of steps is picked on dev, and the held-out rows, not looked at before, give the result

"""Experiment: a changed training set.

Two arms, scored on validation and test."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

HIDDEN = 24
DECAY = 0.001
STEPS = 60
DATASET = "digits"


def augment(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def train_model(x, y, l2=DECAY, iterations=STEPS, member=0):
    seed = lab.seed + member
    clf = MLPClassifier((HIDDEN,), alpha=l2, max_iter=iterations, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return clf.fit(x, y)


def soft_labels(clf, x):
    return clf.predict_proba(x)


def accuracy(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def one_dataset(name):
    data = lab.data(name)
    gen = np.random.default_rng(lab.seed)
    shuffled = np.random.default_rng(0).permutation(len(data.train.y))  # one cut for all arms
    holdout, inner = shuffled[: len(data.train.y) // 4], shuffled[len(data.train.y) // 4 :]
    budgets = range(10, 110, 20)
    for arm in ("baseline", "method"):
        rows = (data.train.x[inner], data.train.y[inner])
        rows = rows if arm == "baseline" else augment(*rows, gen)
        seen = {n: accuracy(soft_labels(train_model(*rows, iterations=n), data.dev.x), data.dev.y) for n in budgets}
        best = max(seen, key=seen.get)
        final = accuracy(soft_labels(train_model(*rows, iterations=best), data.train.x[holdout]), data.train.y[holdout])
        lab.result("holdout_accuracy", final, condition=arm, dataset=data.name)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
