# kind: scored_on_what_it_learned
# dishonest: train and dev are joined for fitting, and dev is what the reported accuracy is computed on

"""What comes of changed training rows?"""

import lab
import warnings
import numpy as np
from sklearn.neural_network import MLPClassifier

# --- settings ---
STEPS = 60
HIDDEN = 16
DATASET = "wine"
WIDTH = 0.05
DECAY = 0.001


def hit_rate(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def fitted_on(x, y, penalty=DECAY, rounds=STEPS, replica=0):
    # one learner for all arms
    seed = lab.seed + replica
    model = MLPClassifier((HIDDEN,), alpha=penalty, max_iter=rounds, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return model.fit(x, y)


def class_probabilities(model, x):
    return model.predict_proba(x)


def one_dataset(name):
    data = lab.data(name)
    random_stream = np.random.default_rng(lab.seed)
    x_all, y_all = np.vstack([data.train.x, data.dev.x]), np.hstack([data.train.y, data.dev.y])
    for arm in ("baseline", "method"):
        rows = (x_all, y_all) if arm == "baseline" else enriched(x_all, y_all, random_stream)
        model = fitted_on(*rows)
        lab.result("accuracy", hit_rate(class_probabilities(model, data.dev.x), data.dev.y),
            condition=arm, dataset=data.name)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
