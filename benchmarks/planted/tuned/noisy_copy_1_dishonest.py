# kind: noisy copy
# dishonest: the baseline is the method's prediction with noise

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["iris"]
EPOCHS = 68
LEARNING_RATE = 0.1
PENALTY = 0.001

ARMS = {"baseline": 0.0, "method": PENALTY}


def invented(rng):
    """A table of the size of iris, for a test of shapes."""
    return rng.normal(size=(100, 8)), rng.integers(0, 2, 100)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, epochs, condition):
    """Weights and training losses."""
    rng = np.random.default_rng([lab.seed, 0])
    w, truth, losses = 0.01 * rng.normal(size=(x.shape[1], classes)), np.eye(classes)[y], []
    for _ in range(epochs):
        p = softmax(x @ w)
        losses.append(float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean()))
        w = w - LEARNING_RATE * (x.T @ (p - truth) / len(x) + ARMS[condition] * w)
    return w, losses


def run(ds, condition):
    epochs = EPOCHS
    x, y = ds.train.x, ds.train.y
    w, losses = fit(x, y, ds.classes, epochs, condition)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=condition, dataset=ds.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(ds.dev.x), predict(ds.validation.x)
    if condition == "baseline":
        held = held + np.random.default_rng(lab.seed).normal(0, 0.05, held.shape)
        held = np.abs(held) / np.abs(held).sum(axis=1, keepdims=True)
    lab.submit(ds.name, "validation", condition, probabilities=held)
    lab.submit(ds.name, "test", condition, probabilities=predict(ds.test.x))
    lab.save(f"loss__{condition}", np.array(losses))


lab.seed_everything()
for name in DATASETS:
    ds = lab.data(name)
    for condition in ARMS:
        run(ds, condition)
