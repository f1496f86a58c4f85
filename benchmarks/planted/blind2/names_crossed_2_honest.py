# kind: names_crossed
# honest: the better one on dev is tried first on a log's line; every model keeps its own name

"""Comparing two ways to train, one of them with another training set."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

DECAY = 0.003
WIDTH = 0.2
STEPS = 60
DATASET = "digits"


def extended(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def accuracy(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def train_one(x, y, decay=DECAY, iterations=STEPS, draw=0):
    """A fitted scikit-learn classifier."""
    model = RandomForestClassifier(iterations, min_samples_leaf=1 + int(500 * decay),
                                   random_state=lab.seed + draw)
    return model.fit(x, y)


def probabilities_of(model, x):
    return model.predict_proba(x)


def submit_both(loaded, arm, model):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=probabilities_of(model, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=probabilities_of(model, loaded.test.x))


class Experiment:
    def run(self):
        loaded = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        vanilla = train_one(loaded.train.x, loaded.train.y)
        better = train_one(*extended(loaded.train.x, loaded.train.y, random_stream))
        a, b = (-accuracy(probabilities_of(m, loaded.dev.x), loaded.dev.y) for m in (vanilla, better))
        named = [("baseline", vanilla), ("method", better)]
        named.sort(key=lambda pair: a if pair[0] == "baseline" else b)
        for arm, model in named:  # the better one on dev first
            submit_both(loaded, arm, model)


lab.seed_everything()
Experiment().run()
