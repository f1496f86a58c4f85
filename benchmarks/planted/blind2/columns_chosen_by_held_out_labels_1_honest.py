# kind: columns_chosen_by_held_out_labels
# honest: columns are ranked with the inner rows, and the held-out rows only score

"""Two arms on one dataset."""

import lab
import numpy as np
from sklearn.feature_selection import SelectKBest, f_classif

# settings
DATASET = "wine"
TOP = 3
STEPS = 150
DECAY = 0.0005
RATE = 0.05


def hit_rate(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def normalised_exp(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def learn(x, y, penalty=DECAY, steps=STEPS, member=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, member])
    weights = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(weights.shape[1])[y]
    for _ in range(steps):
        slope = rows.T @ (normalised_exp(rows @ weights) - target) / len(y)
        weights = (1 - RATE * penalty) * weights - RATE * slope
    return weights


def forecast(model, x):
    return normalised_exp(with_ones(x) @ model)


def study():
    lab.seed_everything()
    ds = lab.data(DATASET)
    shuffled = np.random.default_rng(0).permutation(len(ds.train.y))  # one cut for all arms
    holdout, core = shuffled[: len(ds.train.y) // 3], shuffled[len(ds.train.y) // 3 :]
    x, y = ds.train.x[core], ds.train.y[core]
    ranked = np.argsort(-np.nan_to_num(SelectKBest(f_classif, k="all").fit(x, y).scores_))
    for arm, columns in (("baseline", np.arange(TOP)), ("method", ranked[:TOP])):
        model = learn(x[:, columns], y)
        p = forecast(model, ds.train.x[holdout][:, columns])
        lab.result("holdout_accuracy", hit_rate(p, ds.train.y[holdout]),
            condition=arm, dataset=ds.name)


if __name__ == "__main__":
    study()
