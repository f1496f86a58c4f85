# kind: wish_with_noise
# honest: random draws resample the correctness of real dev predictions (a bootstrap of the standard error)

"""Experiment: a changed training set.

Two arms, scored on validation and test."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# --- settings ---
STEPS = 60
DATASET = "breast_cancer"
DECAY = 0.003


def fitted_on(x, y, decay=DECAY, budget=STEPS, draw=0):
    """Any arm's classifier."""
    clf = RandomForestClassifier(budget, min_samples_leaf=1 + int(500 * decay),
                                   random_state=lab.seed + draw)
    return clf.fit(x, y)


def probabilities_of(clf, x):
    return clf.predict_proba(x)


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def record_arm(loaded, arm, clf):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=probabilities_of(clf, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=probabilities_of(clf, loaded.test.x))


class Study:
    def run(self):
        loaded = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        for arm in ("baseline", "method"):
            rows = (loaded.train.x, loaded.train.y) if arm == "baseline" else resample(loaded.train.x, loaded.train.y, random_stream)
            clf = fitted_on(*rows)
            right = probabilities_of(clf, loaded.dev.x).argmax(axis=1) == loaded.dev.y
            spread = np.std([right[random_stream.integers(0, len(right), len(right))].mean() for _ in range(400)])
            lab.result("bootstrap_standard_error", spread,
                condition=arm, dataset=loaded.name, split="dev")
            record_arm(loaded, arm, clf)


lab.seed_everything()
Study().run()
