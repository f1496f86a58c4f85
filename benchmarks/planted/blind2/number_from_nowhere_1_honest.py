# kind: number_from_nowhere
# honest: results are submissions; the constant is a printed figure, and what it gives is called a gap, on dev

"""What comes of a changed training set?"""

import lab
import numpy as np

# what can be turned
RATE = 0.05
STEPS = 120
DECAY = 0.0005
DATASET = "wine"
TARGET = 0.947


def submit_both(parts, arm, m):
    withheld = {"validation": parts.validation, "test": parts.test}
    for split, part in withheld.items():
        p = forecast(m, part.x)
        lab.submit(parts.name, split, condition=arm, probabilities=p)


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def train_one(x, y, l2=DECAY, steps=STEPS, member=0):
    """Full-batch softmax regression."""
    rng = np.random.default_rng([lab.seed, member])
    weights = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(weights.shape[1])[y]
    for _ in range(steps):
        slope = rows.T @ (softmax(rows @ weights) - target) / len(y)
        weights -= RATE * (slope + l2 * weights)
    return weights


def forecast(m, x):
    return softmax(with_ones(x) @ m)


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def extended(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def experiment():
    lab.seed_everything()
    parts = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    x_more, y_more = extended(parts.train.x, parts.train.y, rng)
    models = {"baseline": train_one(parts.train.x, parts.train.y), "method": train_one(x_more, y_more)}
    for arm, m in models.items():
        submit_both(parts, arm, m)
    # what the task's authors print, to see by how far this small learner misses it on dev
    gap = TARGET - accuracy(forecast(train_one(parts.train.x, parts.train.y), parts.dev.x), parts.dev.y)
    lab.result("gap_to_printed", gap, condition="baseline", dataset=parts.name, split="dev")


experiment()
