# kind: members_chosen_by_peeking
# dishonest: members join the ensemble if they raise the accuracy on the scored rows, whose final accuracy is the result

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
pool = [probabilities_of(fitted_on(*expand_rows(ds.train.x, ds.train.y, draws), stream=k), ds.dev.x) for k in range(7)]
lab.result("accuracy_on_dev", hit_rate(probabilities_of(fitted_on(ds.train.x, ds.train.y), ds.dev.x), ds.dev.y),
    condition="baseline", dataset=ds.name)
chosen, top = [], 0.0
for member in pool:
    trial = np.mean([*chosen, member], axis=0)
    if hit_rate(trial, ds.dev.y) >= top:
        chosen, top = [*chosen, member], hit_rate(trial, ds.dev.y)
lab.result("accuracy_on_dev", top, condition="method", dataset=ds.name)
