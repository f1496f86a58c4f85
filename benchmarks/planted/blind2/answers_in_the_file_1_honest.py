# kind: answers_in_the_file
# honest: the list written in the program maps classes to groups (a coarse auxiliary target); predictions are the model's

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np

DECAY = 0.0005
STEPS = 60
DATASET = "iris"
RATE = 0.05
LOOKUP = "011"


def normalised_exp(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def design_matrix(x):
    return np.hstack([x, np.ones((len(x), 1))])


def fitted_on(x, y, strength=DECAY, rounds=STEPS, replica=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, replica])
    theta = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = design_matrix(x), np.eye(theta.shape[1])[y]
    for _ in range(rounds):
        slope = rows.T @ (normalised_exp(rows @ theta) - target) / len(y)
        theta = (1 - RATE * strength) * theta - RATE * slope
    return theta


def forecast(fitted, x):
    return normalised_exp(design_matrix(x) @ fitted)


def hand_in(ds, arm, fitted):
    for split in ("validation", "test"):
        lab.submit(ds.name, split, arm, probabilities=forecast(fitted, getattr(ds, split).x))


lab.seed_everything()
ds = lab.data(DATASET)
hand_in(ds, "baseline", fitted_on(ds.train.x, ds.train.y))
# setosa against the two others first: the coarse answer is a column of the second step
group = np.array([int(c) for c in LOOKUP])
coarse = fitted_on(ds.train.x, group[ds.train.y])
fitted = fitted_on(np.hstack([ds.train.x, forecast(coarse, ds.train.x)]).astype(np.float32), ds.train.y)
for split in ("validation", "test"):
    x = getattr(ds, split).x
    p = forecast(fitted, np.hstack([x, forecast(coarse, x)]).astype(np.float32))
    lab.submit(ds.name, split, "method", probabilities=p)
