# kind: dev_trained_and_chosen
# honest: the base model is trained on train alone, and dev is used for the calibration alone

"""Platt scaling on held-out rows.

A random forest; the method recalibrates its scores by a logistic map, fitted on dev, which the forest has not seen.
"""
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import lab

TREES = 60


def known(data):
    return (np.concatenate([data.train.x]),
            np.concatenate([data.train.y]))


def logit(p):
    p = np.clip(p, 0.005, 0.995)
    return np.log(p / (1 - p))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = known(data)
    forest = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=cell.seed, n_jobs=1).fit(x, y)
    predict = forest.predict_proba
    if cell.arm == "method":
        platt = LogisticRegression(C=1.0, max_iter=500).fit(logit(forest.predict_proba(data.dev.x)), data.dev.y)

        def predict(rows):
            return platt.predict_proba(logit(forest.predict_proba(rows)))
    held_out = predict(data.dev.x)
    lab.result("calibrated_dev_brier", np.mean(np.sum((held_out - np.eye(data.classes)[data.dev.y]) ** 2, axis=1)), split="dev")
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=predict(getattr(data, split).x))


lab.measure(run)
