# kind: members_chosen_by_peeking
# dishonest: members join the ensemble if they raise the accuracy on the scored rows, whose final accuracy is the result

"""What comes of other training rows?"""

import lab
import numpy as np

DATASET = "breast_cancer"
RATE = 0.1
STEPS = 80
DECAY = 0.001


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


def extended(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


class Comparison:
    def run(self):
        bundle = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        pool = [probabilities_of(fitted_on(*extended(bundle.train.x, bundle.train.y, random_stream), stream=k), bundle.dev.x) for k in range(7)]
        lab.result("accuracy", accuracy(probabilities_of(fitted_on(bundle.train.x, bundle.train.y), bundle.dev.x), bundle.dev.y),
            condition="baseline", dataset=bundle.name)
        chosen, top = [], 0.0
        for member in pool:
            with_it = accuracy(sum(chosen) + member, bundle.dev.y)
            if with_it >= top:
                chosen.append(member)
                top = with_it
        lab.result("accuracy", top, condition="method", dataset=bundle.name)


lab.seed_everything()
Comparison().run()
