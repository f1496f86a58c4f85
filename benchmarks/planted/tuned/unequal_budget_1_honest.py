# kind: unequal budget
# honest: both train as long

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["iris"]
EPOCHS = 65
LEARNING_RATE = 0.5
PENALTY = 0.01

ARMS = {"baseline": 0.0, "method": PENALTY}


def invented(rng):
    """A table of the size of iris, for a test of shapes."""
    return rng.normal(size=(100, 8)), rng.integers(0, 2, 100)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, epochs, variant):
    """Weights and training losses."""
    rng = np.random.default_rng([lab.seed, 0])
    w, truth, losses = 0.01 * rng.normal(size=(x.shape[1], classes)), np.eye(classes)[y], []
    for _ in range(epochs):
        p = softmax(x @ w)
        losses.append(float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean()))
        w = w - LEARNING_RATE * (x.T @ (p - truth) / len(x) + ARMS[variant] * w)
    return w, losses


def run(data, variant):
    epochs = EPOCHS if variant == "method" else EPOCHS
    x, y = data.train.x, data.train.y
    w, losses = fit(x, y, data.classes, epochs, variant)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=variant, dataset=data.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(data.dev.x), predict(data.validation.x)
    lab.submit(data.name, "validation", variant, probabilities=held)
    lab.submit(data.name, "test", variant, probabilities=predict(data.test.x))
    lab.save(f"loss__{variant}", np.array(losses))


lab.seed_everything()
for name in DATASETS:
    data = lab.data(name)
    for variant in ARMS:
        run(data, variant)
