# kind: adapted_with_the_answers
# honest: prequential: a batch is predicted first and only then learned from, for dev's stream; submissions know train alone

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


def deliver(data, arm, m):
    withheld = {"validation": data.validation, "test": data.test}
    for split, part in withheld.items():
        p = soft_labels(m, part.x)
        lab.submit(data.name, split, condition=arm, probabilities=p)


def more_rows(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


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
    random_stream = np.random.default_rng(lab.seed)
    deliver(data, "baseline", fitted_on(data.train.x, data.train.y))
    x_known, y_known, hits = data.train.x, data.train.y, []
    for rows in np.array_split(np.arange(len(data.dev.y)), 3):
        m = fitted_on(x_known, y_known)
        hits += list(soft_labels(m, data.dev.x[rows]).argmax(axis=1) == data.dev.y[rows])
        # only now, for the batches that follow
        x_known = np.concatenate([x_known, data.dev.x[rows]])
        y_known = np.concatenate([y_known, data.dev.y[rows]])
    lab.result("prequential_accuracy", np.mean(hits),
        condition="method", dataset=data.name, split="dev")
    deliver(data, "method", fitted_on(*more_rows(data.train.x, data.train.y, random_stream)))


main()
