# kind: one_arm_tuned
# honest: both arms search one grid on dev

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# --- settings ---
STEPS = 80
DECAY = 0.001
DATASET = "digits"


def fitted_on(x, y, l2=DECAY, steps=STEPS, replica=0):
    model = LogisticRegression(C=1 / (1000 * l2), max_iter=10 * steps)
    return model.fit(x, y)


def predict(model, x):
    return model.predict_proba(x)


def share_right(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def deliver(loaded, arm, model):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=predict(model, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=predict(model, loaded.test.x))


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def one_dataset(name):
    loaded = lab.data(name)
    gen = np.random.default_rng(lab.seed)
    grid = [(s, n) for s in (0.0001, 0.002, 0.02) for n in (50, 150)]
    more = resample(loaded.train.x, loaded.train.y, gen)
    for arm, rows in (("baseline", (loaded.train.x, loaded.train.y)), ("method", more)):
        tried = grid
        best = max(tried, key=lambda pair: share_right(predict(fitted_on(*rows, *pair), loaded.dev.x), loaded.dev.y))
        deliver(loaded, arm, fitted_on(*rows, *best))


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
