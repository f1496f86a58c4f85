# kind: luckiest_start
# dishonest: the method is fitted from many starts, and the score of the best start on the scored rows is reported

"""We test whether we gain from changed training rows.

Both arms use one learner."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

DECAY = 0.003
STEPS = 150
DATASET = "digits"
STARTS = 8


def expand_rows(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def fitted_on(x, y, penalty=DECAY, rounds=STEPS, member=0):
    """A fitted scikit-learn classifier."""
    m = RandomForestClassifier(rounds, min_samples_leaf=1 + int(500 * penalty),
                                   random_state=lab.seed + member)
    return m.fit(x, y)


def soft_labels(m, x):
    return m.predict_proba(x)


def one_dataset(name):
    parts = lab.data(name)
    rng = np.random.default_rng(lab.seed)
    lab.result("accuracy", accuracy(soft_labels(fitted_on(parts.train.x, parts.train.y), parts.dev.x), parts.dev.y),
        condition="baseline", dataset=parts.name)
    scores = [accuracy(soft_labels(fitted_on(*expand_rows(parts.train.x, parts.train.y, rng), member=k), parts.dev.x), parts.dev.y) for k in range(STARTS)]
    lab.result("accuracy", max(scores), condition="method", dataset=parts.name)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
