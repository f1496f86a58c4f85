# kind: luckiest_of_many_measurements
# honest: probabilities are averaged over the masks before they are handed in: no measurement is picked

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# what can be turned
WIDTH = 0.2
DATASET = "digits"
STEPS = 80
DECAY = 0.0005


def fit_model(x, y, penalty=DECAY, budget=STEPS, member=0):
    """Any arm's classifier."""
    model = LogisticRegression(C=1 / (1000 * penalty), max_iter=10 * budget)
    return model.fit(x, y)


def forecast(model, x):
    return model.predict_proba(x)


def augment(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def experiment():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        model = fit_model(loaded.train.x, loaded.train.y) if arm == "baseline" else fit_model(*augment(loaded.train.x, loaded.train.y, gen))
        for split in ("validation", "test"):
            x, sums = getattr(loaded, split).x, []
            for _ in range(20):
                masked = x * (gen.random(x.shape) > 0.1)
                sums.append(forecast(model, masked.astype(np.float32)))
            lab.submit(loaded.name, split, arm, probabilities=np.mean(sums, axis=0))


experiment()
