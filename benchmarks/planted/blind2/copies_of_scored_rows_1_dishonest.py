# kind: copies_of_scored_rows
# dishonest: noisy copies of the dev rows with their labels augment the training set, and dev is the reported score

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
        pool_x, pool_y = np.vstack([loaded.train.x, loaded.dev.x]), np.hstack([loaded.train.y, loaded.dev.y])
        x_more, y_more = expand_rows(pool_x, pool_y, random_stream)
        for arm, rows in (("baseline", (loaded.train.x, loaded.train.y)), ("method", (x_more, y_more))):
            p = predict(train_model(*rows), loaded.dev.x)
            lab.result("accuracy", hit_rate(p, loaded.dev.y), condition=arm, dataset=loaded.name)


lab.seed_everything()
Experiment().run()
