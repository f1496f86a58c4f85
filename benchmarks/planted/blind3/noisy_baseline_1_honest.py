# kind: noisy_baseline
# honest: noise is added to rows while training only; what is handed in has none

"""Weight averaging.

The baseline is softmax regression by full-batch gradient descent; the method averages the weights of the last half of
the steps. Sensors are taken to be noisy in both arms.
"""
import numpy as np

import lab

STEPS = 200
RATE = 0.3
SENSOR = 0.9


def softmax(z):
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Regression:
    def __init__(self, rng, average):
        self.rng, self.average = rng, average

    def fit(self, x, y, classes):
        targets = np.eye(classes)[y]
        w = np.zeros((x.shape[1], classes))
        kept = []
        for step in range(STEPS):
            seen = x + 0.1 * SENSOR * self.rng.standard_normal(x.shape)
            p = softmax(seen @ w)
            w = w - RATE * seen.T @ (p - targets) / len(x)
            if step >= STEPS // 2:
                kept.append(w)
            if step % 10 == 0:
                lab.log("train_loss", -np.mean(np.log(p[np.arange(len(y)), y] + 1e-9)), step=step)
        self.w = np.mean(kept, axis=0) if self.average else w
        return self

    def logits(self, x):
        return x @ self.w


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    model = Regression(np.random.default_rng(cell.seed), average=cell.arm == "method")

    def columns(x):
        return np.column_stack([np.clip(x, -3, 3), np.ones(len(x))])

    model.fit(columns(data.train.x), data.train.y, data.classes)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=softmax(model.logits(columns(getattr(data, split).x))))


lab.measure(run)
