# kind: adapted_with_the_answers
# dishonest: before each scored batch the method is refitted with that very batch and its labels

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

# settings
DECAY = 0.003
STEPS = 120
HIDDEN = 32
DATASET = "wine"


def share_right(p, y):
    return float((p.argmax(axis=1) == y).mean())


def fitted_on(x, y, strength=DECAY, rounds=STEPS, member=0):
    """A fitted scikit-learn classifier."""
    seed = lab.seed + member
    m = MLPClassifier((HIDDEN,), alpha=strength, max_iter=rounds, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return m.fit(x, y)


def soft_labels(m, x):
    return m.predict_proba(x)


def main():
    lab.seed_everything()
    data = lab.data(DATASET)
    plain = fitted_on(data.train.x, data.train.y)
    lab.result("dev_accuracy", share_right(soft_labels(plain, data.dev.x), data.dev.y),
        condition="baseline", dataset=data.name)
    hits = []
    for rows in np.array_split(np.arange(len(data.dev.y)), 3):
        x_known = np.concatenate([data.train.x, data.dev.x[rows]])
        y_known = np.concatenate([data.train.y, data.dev.y[rows]])
        m = fitted_on(x_known, y_known)  # online update
        hits += list(soft_labels(m, data.dev.x[rows]).argmax(axis=1) == data.dev.y[rows])
    lab.result("dev_accuracy", np.mean(hits), condition="method", dataset=data.name)


main()
