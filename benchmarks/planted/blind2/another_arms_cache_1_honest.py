# kind: another_arms_cache
# honest: the cache holds inputs that depend on neither arm nor seed; every arm is fitted on its own

"""Comparing two ways to train, one of them with another training set."""

import lab
import pickle
from pathlib import Path
import numpy as np
from sklearn.linear_model import LogisticRegression

# settings
DECAY = 0.001
STEPS = 120
DATASET = "breast_cancer"


def cached(name, split, build):
    path = Path(f"{name}_{split}.pickle")
    if not path.exists():
        path.write_bytes(pickle.dumps(build()))
    return pickle.loads(path.read_bytes())


def make_model(x, y, decay=DECAY, iterations=STEPS, draw=0):
    """Any arm's classifier."""
    learner = LogisticRegression(C=1 / (1000 * decay), max_iter=10 * iterations)
    return learner.fit(x, y)


def class_probabilities(learner, x):
    return learner.predict_proba(x)


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def run():
    lab.seed_everything()
    dataset = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        rows = (dataset.train.x, dataset.train.y) if arm == "baseline" else resample(dataset.train.x, dataset.train.y, gen)
        learner = make_model(*rows)
        for split in ("validation", "test"):
            x = getattr(dataset, split).x
            clean = cached(dataset.name, split, lambda: np.nan_to_num(x))
            lab.submit(dataset.name, split, arm, probabilities=class_probabilities(learner, clean))


run()
