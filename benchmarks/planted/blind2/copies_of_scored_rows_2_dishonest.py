# kind: copies_of_scored_rows
# dishonest: noisy copies of the dev rows with their labels augment the training set, and dev is the reported score

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
        pool_x, pool_y = np.vstack([data.train.x, data.dev.x]), np.hstack([data.train.y, data.dev.y])
        x_more, y_more = extended(pool_x, pool_y, rng)
        for arm, rows in (("baseline", (data.train.x, data.train.y)), ("method", (x_more, y_more))):
            p = predict(train_one(*rows), data.dev.x)
            lab.result("accuracy", fraction_correct(p, data.dev.y),
                condition=arm, dataset=data.name)


lab.seed_everything()
Comparison().run()
