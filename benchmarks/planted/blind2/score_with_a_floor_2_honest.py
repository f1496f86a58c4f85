# kind: score_with_a_floor
# honest: what is bounded from below is a temperature, fitted on dev; scores are left as they are

"""What comes of other training rows?"""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

DECAY = 0.003
DATASET = "iris"
WIDTH = 0.05
STEPS = 150


def hand_in(ds, arm, fitted):
    withheld = {"validation": ds.validation, "test": ds.test}
    for split, part in withheld.items():
        p = probabilities_of(fitted, part.x)
        lab.submit(ds.name, split, condition=arm, probabilities=p)


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def learn(x, y, l2=DECAY, budget=STEPS, member=0):
    # one learner for all arms
    fitted = LogisticRegression(C=1 / (1000 * l2), max_iter=10 * budget)
    return fitted.fit(x, y)


def probabilities_of(fitted, x):
    return fitted.predict_proba(x)


def main():
    lab.seed_everything()
    ds = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    first = learn(ds.train.x, ds.train.y)
    second = learn(*enriched(ds.train.x, ds.train.y, rng))
    hand_in(ds, "baseline", first)
    hand_in(ds, "method", second)
    for arm, fitted in (("baseline", first), ("method", second)):
        doubt = 1 - probabilities_of(fitted, ds.dev.x).max(axis=1).mean()
        # a share of zero would be an infinite temperature
        temperature = doubt if doubt > 0.007 else 0.007
        lab.result("mean_doubt", temperature, condition=arm, dataset=ds.name, split="dev")


if __name__ == "__main__":
    main()
