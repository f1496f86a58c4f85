# kind: members_chosen_by_peeking
# honest: members join by dev's accuracy, and the ensemble's predictions of the withheld parts are submitted

"""What comes of other training rows?"""

import lab
import numpy as np

DATASET = "breast_cancer"
RATE = 0.1
STEPS = 80
DECAY = 0.001


def extended(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def design_matrix(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def fitted_on(x, y, decay=DECAY, iterations=STEPS, stream=0):
    """A linear classifier."""
    rng = np.random.default_rng([lab.seed, stream])
    coef = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = design_matrix(x), np.eye(coef.shape[1])[y]
    for _ in range(iterations):
        slope = rows.T @ (softmax(rows @ coef) - target) / len(y)
        coef = (1 - RATE * decay) * coef - RATE * slope
    return coef


def probabilities_of(model, x):
    return softmax(design_matrix(x) @ model)


def deliver(bundle, arm, model):
    for split in ("validation", "test"):
        lab.submit(bundle.name, split, arm, probabilities=probabilities_of(model, getattr(bundle, split).x))


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


class Comparison:
    def run(self):
        bundle = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        pool = [fitted_on(*extended(bundle.train.x, bundle.train.y, random_stream), stream=k) for k in range(7)]
        deliver(bundle, "baseline", fitted_on(bundle.train.x, bundle.train.y))
        chosen, top = [], 0.0
        for member in pool:
            trial = np.mean([probabilities_of(m, bundle.dev.x) for m in [*chosen, member]], axis=0)
            if accuracy(trial, bundle.dev.y) >= top:
                chosen, top = [*chosen, member], accuracy(trial, bundle.dev.y)
        for split in ("validation", "test"):
            p = np.mean([probabilities_of(m, getattr(bundle, split).x) for m in chosen], axis=0)
            lab.submit(bundle.name, split, "method", probabilities=p)


lab.seed_everything()
Comparison().run()
