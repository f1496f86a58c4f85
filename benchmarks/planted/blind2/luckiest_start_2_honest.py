# kind: luckiest_start
# honest: dev picks among starts of both arms; what is reported is the picked model's submission on withheld rows

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


def fraction_correct(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def extended(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def make_model(x, y, penalty=DECAY, steps=STEPS, stream=0):
    """Any arm's classifier."""
    seed = lab.seed + stream
    model = MLPClassifier((HIDDEN,), alpha=penalty, max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return model.fit(x, y)


def predict(model, x):
    return model.predict_proba(x)


def send(ds, arm, model):
    withheld = {"validation": ds.validation, "test": ds.test}
    for split, part in withheld.items():
        p = predict(model, part.x)
        lab.submit(ds.name, split, condition=arm, probabilities=p)


def study():
    lab.seed_everything()
    ds = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        best, top = None, -1.0
        for k in range(TRIES):
            rows = (ds.train.x, ds.train.y) if arm == "baseline" else extended(ds.train.x, ds.train.y, rng)
            model = make_model(*rows, stream=k)
            score = fraction_correct(predict(model, ds.dev.x), ds.dev.y)
            if score > top:
                best, top = model, score
        send(ds, arm, best)


study()
