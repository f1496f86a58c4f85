# kind: hard_against_soft
# dishonest: the baseline hands in hard 0 and 1 as probabilities and the method soft ones, so that log loss compares the form and not the models

"""Extremely random trees.

The baseline is a random forest, the method a forest of extremely random trees, with as many trees. Accuracy and log
loss are of interest.
"""
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import lab

TREES = 50


def votes(forest, x, classes):
    """Rows of shares, a vote a tree."""
    counts = np.zeros((len(x), classes))
    for tree in forest.estimators_:
        counts[np.arange(len(x)), tree.predict(x).astype(int)] += 1
    return counts / len(forest.estimators_)


def majority(forest, x, classes):
    return np.eye(classes)[votes(forest, x, classes).argmax(axis=1)]


ARMS = {"baseline": (RandomForestClassifier, majority), "method": (ExtraTreesClassifier, votes)}


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    build, predict = ARMS[cell.arm]
    forest = build(TREES, min_samples_leaf=2, random_state=cell.seed).fit(data.train.x, data.train.y)
    dev = majority(forest, data.dev.x, data.classes).argmax(axis=1)
    lab.result("dev_accuracy", np.mean(dev == data.dev.y), split="dev")
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=predict(forest, getattr(data, split).x, data.classes))


lab.measure(run)
