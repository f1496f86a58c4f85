# kind: copies_of_scored_rows
# honest: the same, with training rows alone: dev is neither copied nor chosen on, and its name is in the metric

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

DECAY = 0.003
WIDTH = 0.2
STEPS = 150
DATASET = "breast_cancer"


def expand_rows(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def hit_rate(p, y):
    return float((p.argmax(axis=1) == y).mean())


def train_model(x, y, l2=DECAY, iterations=STEPS, stream=0):
    """A fitted scikit-learn classifier."""
    fitted = RandomForestClassifier(iterations, min_samples_leaf=1 + int(500 * l2),
                                   random_state=lab.seed + stream)
    return fitted.fit(x, y)


def predict(fitted, x):
    return fitted.predict_proba(x)


class Experiment:
    def run(self):
        loaded = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        x_more, y_more = expand_rows(loaded.train.x, loaded.train.y, random_stream)
        for _ in range(3):
            x_more = np.vstack([x_more, loaded.train.x + random_stream.normal(0, 0.05, loaded.train.x.shape).astype(np.float32)])
            y_more = np.hstack([y_more, loaded.train.y])
        for arm, rows in (("baseline", (loaded.train.x, loaded.train.y)), ("method", (x_more, y_more))):
            p = predict(train_model(*rows), loaded.dev.x)
            lab.result("accuracy_on_dev", hit_rate(p, loaded.dev.y),
                condition=arm, dataset=loaded.name)


lab.seed_everything()
Experiment().run()
