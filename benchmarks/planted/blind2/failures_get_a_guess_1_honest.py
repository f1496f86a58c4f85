# kind: failures_get_a_guess
# honest: a numerical failure is tried once more with a stronger penalty, logged, and raised if it stays

"""We test whether we gain from a changed training set.

Both arms use one learner."""

import lab
import numpy as np

DATASET = "digits"
COPIES = 2
WIDTH = 0.1
RATE = 0.1
STEPS = 80
DECAY = 0.0005


def robust(x, y, parts):
    for ridge in (0.0, 0.01, 0.1):
        try:
            turn = np.linalg.inv(np.linalg.cholesky(np.cov(x.T) + ridge * np.eye(x.shape[1]))).T
        except np.linalg.LinAlgError:
            if ridge == 0.1:
                raise
        else:
            lab.result("ridge", ridge, condition="method", dataset=DATASET, split="train")
            model = fit_model(x @ turn, y)
            return [soft_labels(model, rows @ turn) for rows in parts]


def normalised_exp(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def add_bias(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def fit_model(x, y, l2=DECAY, rounds=STEPS, member=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, member])
    coef = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = add_bias(x), np.eye(coef.shape[1])[y]
    for _ in range(rounds):
        slope = rows.T @ (normalised_exp(rows @ coef) - target) / len(y)
        coef -= RATE * (slope + l2 * coef)
    return coef


def soft_labels(model, x):
    return normalised_exp(add_bias(x) @ model)


def enriched(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


lab.seed_everything()
bundle = lab.data(DATASET)
gen = np.random.default_rng(lab.seed)
x_more, y_more = enriched(bundle.train.x, bundle.train.y, gen)
both = robust(x_more, y_more, [bundle.validation.x, bundle.test.x])
model = fit_model(bundle.train.x, bundle.train.y)
for split, p in zip(("validation", "test"), both, strict=True):
    x = getattr(bundle, split).x
    lab.submit(bundle.name, split, "baseline", probabilities=soft_labels(model, x))
    lab.submit(bundle.name, split, "method", probabilities=p)
