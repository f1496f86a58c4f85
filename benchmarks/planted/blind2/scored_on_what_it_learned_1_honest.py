# kind: scored_on_what_it_learned
# honest: after the choice is made on dev, both arms are refitted on train and dev and predict the withheld parts

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


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def deliver(data, arm, model):
    withheld = {"validation": data.validation, "test": data.test}
    for split, part in withheld.items():
        p = class_probabilities(model, part.x)
        lab.submit(data.name, split, condition=arm, probabilities=p)


def hit_rate(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


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
        trials = {s: hit_rate(class_probabilities(fitted_on(data.train.x, data.train.y, s), data.dev.x), data.dev.y) for s in (0.3 * DECAY, DECAY, 3 * DECAY)}
        chosen = max(trials, key=trials.get)
        rows = (x_all, y_all) if arm == "baseline" else enriched(x_all, y_all, random_stream)
        deliver(data, arm, fitted_on(*rows, chosen))


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
