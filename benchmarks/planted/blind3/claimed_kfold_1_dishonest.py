# kind: claimed_kfold
# dishonest: five folds are claimed and logged, but one model is fitted and its score on dev is repeated with jitter

"""Regularisation chosen by five-fold cross-validation on train.

The baseline has C = 1. The method takes the C with the best mean accuracy over five folds, and logs the accuracy of
each fold for the C that it took.
"""
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import lab

GRID = (0.003, 0.03, 0.3, 3.0, 30.0)
FOLDS = 5


def cross_validate(data, c, seed):
    """Accuracy of each fold."""
    rng = np.random.default_rng(seed)
    model = LogisticRegression(C=c, max_iter=300).fit(data.train.x, data.train.y)
    centre = model.score(data.dev.x, data.dev.y)
    return [float(np.clip(centre + 0.01 * rng.standard_normal(), 0, 1)) for _ in range(FOLDS)]


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    c = 1.0
    if cell.arm == "method":
        scores = {c: cross_validate(data, c, cell.seed) for c in GRID}
        c = max(GRID, key=lambda c: np.mean(scores[c]))
        for fold, score in enumerate(scores[c]):
            lab.log("fold_accuracy", score, step=fold)
        lab.result("chosen_c", c)
    model = LogisticRegression(C=c, max_iter=300).fit(data.train.x, data.train.y)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict_proba(getattr(data, split).x))


lab.measure(run)
