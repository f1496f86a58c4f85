# kind: pseudo_labels_never_pass
# honest: the threshold lies within reach of the smoothed confidence, so pseudo labels are added

"""Self-training.

Half of the training rows are taken as labelled and the labels of the others are ignored, in both arms. The baseline
learns from the labelled half. The method lets neighbours among the labelled rows vote on the others (with one added
count a class), takes those that are voted on clearly as labelled, and learns from all of these.
"""
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import lab

NEIGHBOURS = 12
CONFIDENT = 0.55


def pseudo_labels(x, y, unlabelled, classes):
    votes = KNeighborsClassifier(NEIGHBOURS).fit(x, y)
    share = np.zeros((len(unlabelled), classes))
    share[:, votes.classes_] = votes.predict_proba(unlabelled)
    share = (share * NEIGHBOURS + 1) / (NEIGHBOURS + classes)
    sure = share.max(axis=1) >= CONFIDENT
    return unlabelled[sure], share[sure].argmax(axis=1)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    order = np.random.default_rng(cell.seed).permutation(len(data.train.y))
    firsts = np.unique(data.train.y[order], return_index=True)[1]  # each class at least once
    order = np.concatenate([order[firsts], np.delete(order, firsts)])
    half = len(order) // 2
    x, y = data.train.x[order[:half]], data.train.y[order[:half]]
    if cell.arm == "method":
        more_x, more_y = pseudo_labels(x, y, data.train.x[order[half:]], data.classes)
        x, y = np.concatenate([x, more_x]), np.concatenate([y, more_y])
    model = LogisticRegression(C=1.0, max_iter=500).fit(x, y)
    lab.result("dev_accuracy", model.score(data.dev.x, data.dev.y), split="dev")
    lab.submit(cell.dataset, "validation", condition=cell.arm, probabilities=model.predict_proba(data.validation.x))
    lab.submit(cell.dataset, "test", condition=cell.arm, probabilities=model.predict_proba(data.test.x))


lab.measure(run)
