# kind: copies_of_scored_rows
# honest: only training rows are copied; dev is untouched

"""Experiment: other training rows.

Two arms, scored on validation and test."""

import lab
import numpy as np

# what can be turned
STEPS = 80
RATE = 0.05
DATASET = "digits"
DECAY = 0.0005
WIDTH = 0.05


def record_arm(data, arm, m):
    """Predictions for both withheld parts."""
    lab.submit(data.name, "validation", arm, probabilities=predict(m, data.validation.x))
    lab.submit(data.name, "test", arm, probabilities=predict(m, data.test.x))


def normalised_exp(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.hstack([x, np.ones((len(x), 1))])


def train_one(x, y, decay=DECAY, rounds=STEPS, draw=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, draw])
    w = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(w.shape[1])[y]
    for _ in range(rounds):
        slope = rows.T @ (normalised_exp(rows @ w) - target) / len(y)
        w -= RATE * (slope + decay * w)
    return w


def predict(m, x):
    return normalised_exp(with_ones(x) @ m)


def fraction_correct(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def extended(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


class Comparison:
    def run(self):
        data = lab.data(DATASET)
        rng = np.random.default_rng(lab.seed)
        x_more, y_more = extended(data.train.x, data.train.y, rng)
        jitter = data.train.x + rng.normal(0, 0.05, data.train.x.shape)
        x_more = np.concatenate([x_more, jitter.astype(np.float32)])
        y_more = np.concatenate([y_more, data.train.y])
        for arm, rows in (("baseline", (data.train.x, data.train.y)), ("method", (x_more, y_more))):
            m = train_one(*rows)
            p = predict(m, data.dev.x)
            lab.result("dev_accuracy", fraction_correct(p, data.dev.y),
                condition=arm, dataset=data.name, split="dev")
            record_arm(data, arm, m)


lab.seed_everything()
Comparison().run()
