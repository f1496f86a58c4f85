# kind: target_in_the_features
# honest: the added columns are computed from the training rows' labels and the row's own inputs

"""Does the change help? One small experiment."""

import lab
import numpy as np

# settings
DATASET = "digits"
STEPS = 120
DECAY = 0.003
RATE = 0.05


def featurise(x, x_known, y_known):
    """The row and its distance to the middle of every class of the known rows."""
    middles = np.stack([x_known[y_known == c].mean(axis=0) for c in np.unique(y_known)])
    hint = np.linalg.norm(x[:, None] - middles[None], axis=2)
    return np.hstack([x, hint]).astype(np.float32)


def to_probabilities(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def biased(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def train_one(x, y, penalty=DECAY, rounds=STEPS, draw=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, draw])
    coef = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = biased(x), np.eye(coef.shape[1])[y]
    for _ in range(rounds):
        slope = rows.T @ (to_probabilities(rows @ coef) - target) / len(y)
        coef -= RATE * (slope + penalty * coef)
    return coef


def forecast(model, x):
    return to_probabilities(biased(x) @ model)


def record_arm(bundle, arm, model):
    withheld = {"validation": bundle.validation, "test": bundle.test}
    for split, part in withheld.items():
        p = forecast(model, part.x)
        lab.submit(bundle.name, split, condition=arm, probabilities=p)


class Study:
    def run(self):
        bundle = lab.data(DATASET)
        record_arm(bundle, "baseline", train_one(bundle.train.x, bundle.train.y))
        model = train_one(featurise(bundle.train.x, bundle.train.x, bundle.train.y), bundle.train.y)
        for split in ("validation", "test"):
            p = forecast(model, featurise(getattr(bundle, split).x, bundle.train.x, bundle.train.y))
            lab.submit(bundle.name, split, "method", probabilities=p)


lab.seed_everything()
Study().run()
