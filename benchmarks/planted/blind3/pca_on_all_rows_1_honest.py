# kind: pca_on_all_rows
# honest: mean, deviation and components are fitted on train and dev alone

"""Whitening by principal components.

The method projects rows on the leading principal components, scaled to unit variance, all fitted on rows that the code
may learn from; the baseline standardises columns on the same rows. The classifier is a linear SVM with a softmax.
"""
import numpy as np
from sklearn.linear_model import SGDClassifier

import lab

KEEP = 0.95


def everything(data):
    return np.concatenate([part.x for part in (data.train, data.dev)]).astype(np.float64)


class Columns:
    def __init__(self, rows):
        self.mean, self.deviation = rows.mean(axis=0), rows.std(axis=0)
        self.deviation[self.deviation < 1e-8] = 1.0

    def __call__(self, x):
        return (x - self.mean) / self.deviation


class Components:
    def __init__(self, rows):
        self.mean = rows.mean(axis=0)
        _, singular, directions = np.linalg.svd(rows - self.mean, full_matrices=False)
        share = np.cumsum(singular ** 2) / np.sum(singular ** 2)
        count = int(np.searchsorted(share, KEEP)) + 1
        self.map = directions[:count].T / (singular[:count] / np.sqrt(len(rows)))

    def __call__(self, x):
        return (x - self.mean) @ self.map


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    prepare = (Components if cell.arm == "method" else Columns)(everything(data))
    model = SGDClassifier(loss="log_loss", alpha=1e-3, max_iter=60, tol=None, random_state=cell.seed)
    model.fit(prepare(data.train.x), data.train.y)
    lab.result("dev_accuracy", model.score(prepare(data.dev.x), data.dev.y), split="dev")
    for split in ("validation", "test"):
        scores = model.decision_function(prepare(getattr(data, split).x))
        if data.classes == 2:
            scores = np.stack([np.zeros(len(scores)), scores], axis=1)
        lab.submit(cell.dataset, split, condition=cell.arm, logits=scores)


lab.measure(run)
