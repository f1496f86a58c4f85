# kind: wish_with_noise
# honest: random draws resample the correctness of real dev predictions (a bootstrap of the standard error)

"""Comparing two ways to train, one of them with a changed training set."""

import lab
import numpy as np

# --- settings ---
RATE = 0.2
WIDTH = 0.2
STEPS = 120
DECAY = 0.0005
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


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def submit_both(loaded, arm, learner):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=probabilities_of(learner, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=probabilities_of(learner, loaded.test.x))


class Experiment:
    def run(self):
        loaded = lab.data(DATASET)
        gen = np.random.default_rng(lab.seed)
        for arm in ("baseline", "method"):
            rows = (loaded.train.x, loaded.train.y) if arm == "baseline" else enriched(loaded.train.x, loaded.train.y, gen)
            learner = fitted_on(*rows)
            right = probabilities_of(learner, loaded.dev.x).argmax(axis=1) == loaded.dev.y
            spread = np.std([right[gen.integers(0, len(right), len(right))].mean() for _ in range(200)])
            lab.result("bootstrap_standard_error", spread,
                condition=arm, dataset=loaded.name, split="dev")
            submit_both(loaded, arm, learner)


lab.seed_everything()
Experiment().run()
