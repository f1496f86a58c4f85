# kind: one_sided_correction
# honest: Cohen's kappa: chance agreement is taken out of both arms by one formula, under its own name, beside the submissions

"""Changed training rows against a plain learner."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# settings
DECAY = 0.003
WIDTH = 0.1
DATASET = "breast_cancer"
STEPS = 120


def send(bundle, arm, estimator):
    withheld = {"validation": bundle.validation, "test": bundle.test}
    for split, part in withheld.items():
        p = probabilities_of(estimator, part.x)
        lab.submit(bundle.name, split, condition=arm, probabilities=p)


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
        send(bundle, arm, estimator)
        called = probabilities_of(estimator, bundle.dev.x).argmax(axis=1)
        agreed = float((called == bundle.dev.y).mean())
        shares = [np.bincount(v, minlength=bundle.classes) / len(v) for v in (called, bundle.dev.y)]
        by_chance = float((shares[0] * shares[1]).sum())
        score = (agreed - by_chance) / (1 - by_chance)
        lab.result("kappa", score, condition=arm, dataset=bundle.name, split="dev")


if __name__ == "__main__":
    experiment()
