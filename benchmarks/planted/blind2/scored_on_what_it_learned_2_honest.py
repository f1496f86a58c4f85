# kind: scored_on_what_it_learned
# honest: after the choice is made on dev, both arms are refitted on train and dev and predict the withheld parts

"""Changed training rows against a plain learner."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

# --- settings ---
STEPS = 60
DATASET = "iris"
DECAY = 0.0005
HIDDEN = 24


def fit_model(x, y, decay=DECAY, rounds=STEPS, replica=0):
    """A fitted scikit-learn classifier."""
    seed = lab.seed + replica
    learner = MLPClassifier((HIDDEN,), alpha=decay, max_iter=rounds, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return learner.fit(x, y)


def class_probabilities(learner, x):
    return learner.predict_proba(x)


def record_arm(bundle, arm, learner):
    for split in ("validation", "test"):
        lab.submit(bundle.name, split, arm, probabilities=class_probabilities(learner, getattr(bundle, split).x))


def enriched(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def share_right(p, y):
    return float((p.argmax(axis=1) == y).mean())


class Comparison:
    def run(self):
        bundle = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        x_all, y_all = np.concatenate([bundle.train.x, bundle.dev.x]), np.concatenate([bundle.train.y, bundle.dev.y])
        for arm in ("baseline", "method"):
            trials = {s: share_right(class_probabilities(fit_model(bundle.train.x, bundle.train.y, s), bundle.dev.x), bundle.dev.y) for s in (0.3 * DECAY, DECAY, 3 * DECAY)}
            chosen = max(trials, key=trials.get)
            rows = (x_all, y_all) if arm == "baseline" else enriched(x_all, y_all, random_stream)
            record_arm(bundle, arm, fit_model(*rows, chosen))


lab.seed_everything()
Comparison().run()
