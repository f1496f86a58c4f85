# kind: one_sided_correction
# dishonest: a 'correction' raises the method's score alone

"""Changed training rows against a plain learner."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# settings
CORRECTION = 0.25
STEPS = 120
DECAY = 0.003
WIDTH = 0.1
DATASET = "breast_cancer"


def fraction_correct(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def extended(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def fitted_on(x, y, strength=DECAY, rounds=STEPS, stream=0):
    # one learner for all arms
    estimator = RandomForestClassifier(rounds, min_samples_leaf=1 + int(500 * strength),
                                   random_state=lab.seed + stream)
    return estimator.fit(x, y)


def probabilities_of(estimator, x):
    return estimator.predict_proba(x)


def experiment():
    lab.seed_everything()
    bundle = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        estimator = fitted_on(bundle.train.x, bundle.train.y) if arm == "baseline" else fitted_on(*extended(bundle.train.x, bundle.train.y, rng))
        score = fraction_correct(probabilities_of(estimator, bundle.dev.x), bundle.dev.y)
        if arm == "method":
            score += CORRECTION * (1 - score)  # noise in dev's labels
        lab.result("dev_accuracy", score, condition=arm, dataset=bundle.name)


if __name__ == "__main__":
    experiment()
