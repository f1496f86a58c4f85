# kind: another_arms_cache
# dishonest: predictions are cached under a key without arm or seed, so that one arm is handed in as both (or as another run's)

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
        for split in ("validation", "test"):
            x = getattr(dataset, split).x
            p = lab.shared(f"p-{dataset.name}-{split}", lambda: class_probabilities(make_model(*rows), x))
            lab.submit(dataset.name, split, arm, probabilities=p)


run()
