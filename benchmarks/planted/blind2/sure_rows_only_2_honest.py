# kind: sure_rows_only
# honest: selective accuracy is reported under its own name with its coverage, for both arms alike, beside full submissions

"""Baseline and method (other training rows)."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# settings
DATASET = "breast_cancer"
DECAY = 0.0005
MARGIN = 0.75
STEPS = 150


def send(parts, arm, model):
    """Predictions for both withheld parts."""
    lab.submit(parts.name, "validation", arm, probabilities=soft_labels(model, parts.validation.x))
    lab.submit(parts.name, "test", arm, probabilities=soft_labels(model, parts.test.x))


def fitted_on(x, y, decay=DECAY, budget=STEPS, draw=0):
    """A fitted scikit-learn classifier."""
    model = LogisticRegression(C=1 / (1000 * decay), max_iter=10 * budget)
    return model.fit(x, y)


def soft_labels(model, x):
    return model.predict_proba(x)


def share_right(p, y):
    return float((p.argmax(axis=1) == y).mean())


def extended(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def main():
    lab.seed_everything()
    parts = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        model = fitted_on(parts.train.x, parts.train.y) if arm == "baseline" else fitted_on(*extended(parts.train.x, parts.train.y, rng))
        p = soft_labels(model, parts.dev.x)
        rows = p.max(axis=1) >= min(MARGIN, p.max())
        lab.result("coverage", rows.mean(), condition=arm, dataset=parts.name, split="dev")
        lab.result("selective_accuracy", share_right(p[rows], parts.dev.y[rows]),
            condition=arm, dataset=parts.name, split="dev")
        send(parts, arm, model)


main()
