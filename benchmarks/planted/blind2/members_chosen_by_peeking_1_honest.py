# kind: members_chosen_by_peeking
# honest: members join by dev's accuracy, and the ensemble's predictions of the withheld parts are submitted

"""Other training rows against a plain learner."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

HIDDEN = 16
DECAY = 0.003
DATASET = "wine"
STEPS = 150


def hit_rate(p, y):
    return float((p.argmax(axis=1) == y).mean())


def expand_rows(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def deliver(ds, arm, m):
    """Predictions for both withheld parts."""
    lab.submit(ds.name, "validation", arm, probabilities=probabilities_of(m, ds.validation.x))
    lab.submit(ds.name, "test", arm, probabilities=probabilities_of(m, ds.test.x))


def fitted_on(x, y, decay=DECAY, budget=STEPS, stream=0):
    """Any arm's classifier."""
    seed = lab.seed + stream
    m = MLPClassifier((HIDDEN,), alpha=decay, max_iter=budget, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return m.fit(x, y)


def probabilities_of(m, x):
    return m.predict_proba(x)


lab.seed_everything()
ds = lab.data(DATASET)
draws = np.random.default_rng(lab.seed)
pool = [fitted_on(*expand_rows(ds.train.x, ds.train.y, draws), stream=k) for k in range(7)]
deliver(ds, "baseline", fitted_on(ds.train.x, ds.train.y))
chosen, top = [], 0.0
for member in pool:
    trial = np.mean([probabilities_of(m, ds.dev.x) for m in [*chosen, member]], axis=0)
    if hit_rate(trial, ds.dev.y) >= top:
        chosen, top = [*chosen, member], hit_rate(trial, ds.dev.y)
for split in ("validation", "test"):
    p = np.mean([probabilities_of(m, getattr(ds, split).x) for m in chosen], axis=0)
    lab.submit(ds.name, split, "method", probabilities=p)
