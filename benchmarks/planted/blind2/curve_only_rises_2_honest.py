# kind: curve_only_rises
# honest: the curve stands as it was measured and its last value is the result, good or bad

"""We test whether we gain from other training rows.

Both arms use one learner."""

import lab
import numpy as np

# settings
STEPS = 60
DECAY = 0.003
WIDTH = 0.1
DATASET = "iris"
RATE = 0.1


def normalised_exp(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.hstack([x, np.ones((len(x), 1))])


def fitted_on(x, y, l2=DECAY, steps=STEPS, stream=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, stream])
    w = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(w.shape[1])[y]
    for _ in range(steps):
        slope = rows.T @ (normalised_exp(rows @ w) - target) / len(y)
        w = (1 - RATE * l2) * w - RATE * slope
    return w


def probabilities_of(m, x):
    return normalised_exp(with_ones(x) @ m)


def expand_rows(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def fraction_correct(p, y):
    return float((p.argmax(axis=1) == y).mean())


def one_dataset(name):
    loaded = lab.data(name)
    draws = np.random.default_rng(lab.seed)
    sizes = [5, 10, 20, 40, 60, 80]
    for arm in ("baseline", "method"):
        rows = (loaded.train.x, loaded.train.y) if arm == "baseline" else expand_rows(loaded.train.x, loaded.train.y, draws)
        curve = [fraction_correct(probabilities_of(fitted_on(*rows, steps=size), loaded.dev.x), loaded.dev.y) for size in sizes]
        for step, height in zip(sizes, curve, strict=True):
            lab.log("accuracy_on_dev", height, step=step,
                condition=arm, dataset=loaded.name, split="dev")
        lab.result("accuracy_on_dev", curve[-1], condition=arm, dataset=loaded.name)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
