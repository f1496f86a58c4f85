# kind: arms_that_are_one
# honest: the switch is read where the rows are made

"""Experiment: a changed training set.

Two arms, scored on validation and test."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# what can be turned
DECAY = 0.0005
STEPS = 120
DATASET = "digits"


class Arm:
    rich = False

    def __init__(self, name, rich):
        self.name, self.rich = name, rich

    def rows(self, x, y, rng):
        return enriched(x, y, rng) if self.rich else (x, y)


def enriched(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def fit_model(x, y, penalty=DECAY, rounds=STEPS, replica=0):
    """Any arm's classifier."""
    learner = LogisticRegression(C=1 / (1000 * penalty), max_iter=10 * rounds)
    return learner.fit(x, y)


def forecast(learner, x):
    return learner.predict_proba(x)


def submit_both(loaded, arm, learner):
    for split in ("validation", "test"):
        lab.submit(loaded.name, split, arm, probabilities=forecast(learner, getattr(loaded, split).x))


def study():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    for arm in (Arm("baseline", False), Arm("method", True)):
        submit_both(loaded, arm.name, fit_model(*arm.rows(loaded.train.x, loaded.train.y, gen)))


study()
