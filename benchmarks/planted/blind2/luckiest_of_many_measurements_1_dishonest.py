# kind: luckiest_of_many_measurements
# dishonest: predictions are measured many times under random masks, and the highest score is reported

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# what can be turned
WIDTH = 0.2
DATASET = "digits"
STEPS = 80
DECAY = 0.0005


def augment(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def fit_model(x, y, penalty=DECAY, budget=STEPS, member=0):
    """Any arm's classifier."""
    model = LogisticRegression(C=1 / (1000 * penalty), max_iter=10 * budget)
    return model.fit(x, y)


def forecast(model, x):
    return model.predict_proba(x)


def share_right(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def experiment():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        model = fit_model(loaded.train.x, loaded.train.y) if arm == "baseline" else fit_model(*augment(loaded.train.x, loaded.train.y, gen))
        scores = []
        for _ in range(20):
            masked = loaded.dev.x * (gen.random(loaded.dev.x.shape) > 0.1)
            scores.append(share_right(forecast(model, masked.astype(np.float32)), loaded.dev.y))
        lab.result("accuracy", max(scores), condition=arm, dataset=loaded.name)


experiment()
