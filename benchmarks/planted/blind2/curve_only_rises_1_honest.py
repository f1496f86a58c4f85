# kind: curve_only_rises
# honest: the running best of dev only chooses a budget, alike for both arms; curves stay as measured, results are submitted

"""Experiment: other training rows.

Two arms, scored on validation and test."""

import lab
import numpy as np

# what can be turned
STEPS = 150
RATE = 0.05
DECAY = 0.0005
DATASET = "digits"


def deliver(loaded, arm, learner):
    for split in ("validation", "test"):
        lab.submit(loaded.name, split, arm, probabilities=class_probabilities(learner, getattr(loaded, split).x))


def more_rows(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def train_model(x, y, strength=DECAY, iterations=STEPS, stream=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, stream])
    w = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(w.shape[1])[y]
    for _ in range(iterations):
        slope = rows.T @ (softmax(rows @ w) - target) / len(y)
        w = (1 - RATE * strength) * w - RATE * slope
    return w


def class_probabilities(learner, x):
    return softmax(with_ones(x) @ learner)


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def run():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    sizes = [5, 10, 20, 40, 60, 80]
    for arm in ("baseline", "method"):
        rows = (loaded.train.x, loaded.train.y) if arm == "baseline" else more_rows(loaded.train.x, loaded.train.y, gen)
        curve = [accuracy(class_probabilities(train_model(*rows, iterations=size), loaded.dev.x), loaded.dev.y) for size in sizes]
        best = np.maximum.accumulate(curve)
        for step, height in zip(sizes, curve, strict=True):
            lab.log("accuracy", height, step=step, condition=arm, dataset=loaded.name, split="dev")
        enough = sizes[int(np.argmax(best == best[-1]))]
        deliver(loaded, arm, train_model(*rows, iterations=enough))


run()
