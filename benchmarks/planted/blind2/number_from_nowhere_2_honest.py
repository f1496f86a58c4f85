# kind: number_from_nowhere
# honest: results are submissions; the constant is a printed figure, and what it gives is called a gap, on dev

"""Comparing two ways to train, one of them with a changed training set."""

import lab
import numpy as np

WIDTH = 0.1
STEPS = 80
DECAY = 0.003
RATE = 0.1
COPIES = 2
PAPER_SCORE = 0.947
DATASET = "breast_cancer"


def more_rows(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def send(loaded, arm, learner):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=class_probabilities(learner, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=class_probabilities(learner, loaded.test.x))


def hit_rate(p, y):
    return float((p.argmax(axis=1) == y).mean())


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def design_matrix(x):
    return np.hstack([x, np.ones((len(x), 1))])


def fit_model(x, y, strength=DECAY, steps=STEPS, replica=0):
    """A linear classifier."""
    rng = np.random.default_rng([lab.seed, replica])
    theta = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = design_matrix(x), np.eye(theta.shape[1])[y]
    for _ in range(steps):
        slope = rows.T @ (softmax(rows @ theta) - target) / len(y)
        theta -= RATE * (slope + strength * theta)
    return theta


def class_probabilities(learner, x):
    return softmax(design_matrix(x) @ learner)


def run():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    draws = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        rows = (loaded.train.x, loaded.train.y) if arm == "baseline" else more_rows(loaded.train.x, loaded.train.y, draws)
        send(loaded, arm, fit_model(*rows))
    # what the task's authors print, to see by how far this small learner misses it on dev
    gap = PAPER_SCORE - hit_rate(class_probabilities(fit_model(loaded.train.x, loaded.train.y), loaded.dev.x), loaded.dev.y)
    lab.result("gap_to_printed", gap, condition="baseline", dataset=loaded.name, split="dev")


if __name__ == "__main__":
    run()
