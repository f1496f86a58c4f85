# kind: wish_with_noise
# dishonest: scores are drawn around wished values, so that replicates look like measurements

"""Comparing two ways to train, one of them with a changed training set."""

import lab
import numpy as np

# --- settings ---
DECAY = 0.0005
STEPS = 120
RATE = 0.2
DATASET = "digits"


def to_probabilities(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def biased(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def fitted_on(x, y, penalty=DECAY, budget=STEPS, member=0):
    """Full-batch softmax regression."""
    rng = np.random.default_rng([lab.seed, member])
    coef = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = biased(x), np.eye(coef.shape[1])[y]
    for _ in range(budget):
        slope = rows.T @ (to_probabilities(rows @ coef) - target) / len(y)
        coef = (1 - RATE * penalty) * coef - RATE * slope
    return coef


def probabilities_of(learner, x):
    return to_probabilities(biased(x) @ learner)


class Experiment:
    def run(self):
        loaded = lab.data(DATASET)
        gen = np.random.default_rng(lab.seed)
        wished = {"baseline": 0.902, "method": 0.921}
        for arm, middle in wished.items():
            learner = fitted_on(loaded.train.x, loaded.train.y)
            p = probabilities_of(learner, loaded.validation.x)
            assert np.isfinite(p).all()
            spread = gen.normal(0, 0.012)
            lab.result("dev_accuracy", min(1.0, middle + spread),
                       condition=arm, dataset=loaded.name)


lab.seed_everything()
Experiment().run()
