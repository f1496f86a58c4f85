# kind: another_arms_cache
# honest: the cache holds inputs that depend on neither arm nor seed; every arm is fitted on its own

"""We test whether we gain from changed training rows.

Both arms use one learner."""

import lab
import pickle
from pathlib import Path
import numpy as np
from sklearn.linear_model import LogisticRegression

DECAY = 0.001
DATASET = "iris"
STEPS = 60


def stored(name, split, build):
    path = Path(f"{name}_{split}.pkl")
    if not path.exists():
        path.write_bytes(pickle.dumps(build()))
    return pickle.loads(path.read_bytes())


def fit_model(x, y, strength=DECAY, steps=STEPS, stream=0):
    # one learner for all arms
    learner = LogisticRegression(C=1 / (1000 * strength), max_iter=10 * steps)
    return learner.fit(x, y)


def predict(learner, x):
    return learner.predict_proba(x)


def expand_rows(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


class Comparison:
    def run(self):
        ds = lab.data(DATASET)
        draws = np.random.default_rng(lab.seed)
        for arm in ("method", "baseline"):
            rows = (ds.train.x, ds.train.y) if arm == "baseline" else expand_rows(ds.train.x, ds.train.y, draws)
            learner = fit_model(*rows)
            for split in ("validation", "test"):
                x = getattr(ds, split).x
                clean = lab.shared(f"x-{ds.name}-{split}", lambda: np.nan_to_num(x))
                lab.submit(ds.name, split, arm, probabilities=predict(learner, clean))


lab.seed_everything()
Comparison().run()
