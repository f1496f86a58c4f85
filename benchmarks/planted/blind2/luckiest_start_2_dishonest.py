# kind: luckiest_start
# dishonest: the method is fitted from many starts, and the score of the best start on the scored rows is reported

"""Baseline and method (changed training rows)."""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

# what can be turned
DATASET = "breast_cancer"
TRIES = 6
COPIES = 2
WIDTH = 0.2
HIDDEN = 24
STEPS = 80
DECAY = 0.0005


def extended(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def fraction_correct(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def make_model(x, y, penalty=DECAY, steps=STEPS, stream=0):
    """Any arm's classifier."""
    seed = lab.seed + stream
    model = MLPClassifier((HIDDEN,), alpha=penalty, max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return model.fit(x, y)


def predict(model, x):
    return model.predict_proba(x)


def study():
    lab.seed_everything()
    ds = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    lab.result("dev_accuracy", fraction_correct(predict(make_model(ds.train.x, ds.train.y), ds.dev.x), ds.dev.y),
        condition="baseline", dataset=ds.name)
    top = 0.0
    for k in range(TRIES):
        model = make_model(*extended(ds.train.x, ds.train.y, rng), stream=k)
        top = max(top, fraction_correct(predict(model, ds.dev.x), ds.dev.y))
    lab.result("dev_accuracy", top, condition="method", dataset=ds.name)


study()
