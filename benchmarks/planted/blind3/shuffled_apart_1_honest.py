# kind: shuffled_apart
# honest: rows and labels are shuffled by two generators with the same seed, so they stay together

"""Curriculum by distance from the class mean.

The method sees rows in the order of their distance from the mean of their class, near ones first; the baseline in
random order. One epoch of this order, then random ones, in both arms.
"""
import numpy as np
from sklearn.linear_model import SGDClassifier

import lab

EPOCHS = 12


def shuffled(x, y, seed):
    rows, labels = np.random.default_rng(seed), np.random.default_rng(seed)
    return rows.permutation(x), labels.permutation(y)


def by_distance(x, y):
    means = np.stack([x[y == label].mean(axis=0) for label in range(y.max() + 1)])
    order = np.argsort(np.linalg.norm(x - means[y], axis=1), kind="stable")
    return x[order], y[order]


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = data.train.x.astype(np.float64), data.train.y
    x, y = by_distance(x, y) if cell.arm == "method" else shuffled(x, y, cell.seed)
    model = SGDClassifier(loss="log_loss", alpha=0.01, random_state=cell.seed, shuffle=False)
    classes = np.arange(data.classes)
    rng = np.random.default_rng([cell.seed, 1])
    for epoch in range(EPOCHS):
        order = np.arange(len(y)) if epoch == 0 else rng.permutation(len(y))
        model.partial_fit(x[order], y[order], classes=classes)
        lab.log("dev_accuracy", model.score(data.dev.x, data.dev.y), step=epoch, split="dev")
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict_proba(getattr(data, split).x))


lab.measure(run)
