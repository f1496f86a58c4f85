# kind: harder_rows_for_the_baseline
# dishonest: the baseline predicts from inputs with noise added, the method from clean ones

"""A changed training set against a plain learner."""

import lab
import numpy as np

# settings
RATE = 0.1
ROUGH = 1.0
STEPS = 150
DATASET = "digits"
WIDTH = 0.1
COPIES = 2
DECAY = 0.001


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def train_model(x, y, decay=DECAY, iterations=STEPS, member=0):
    """A linear classifier."""
    rng = np.random.default_rng([lab.seed, member])
    theta = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(theta.shape[1])[y]
    for _ in range(iterations):
        slope = rows.T @ (softmax(rows @ theta) - target) / len(y)
        theta -= RATE * (slope + decay * theta)
    return theta


def predict(fitted, x):
    return softmax(with_ones(x) @ fitted)


def more_rows(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


lab.seed_everything()
dataset = lab.data(DATASET)
draws = np.random.default_rng(lab.seed)
for arm in ("baseline", "method"):
    fitted = train_model(dataset.train.x, dataset.train.y) if arm == "baseline" else train_model(*more_rows(dataset.train.x, dataset.train.y, draws))
    for split in ("validation", "test"):
        x = getattr(dataset, split).x
        x = x if arm == "method" else x + draws.normal(0, ROUGH, x.shape)
        lab.submit(dataset.name, split, arm, probabilities=predict(fitted, x.astype(np.float32)))
