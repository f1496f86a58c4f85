# kind: constant metric
# honest: the accuracy is computed on dev

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["breast_cancer"]
EPOCHS = 83
LEARNING_RATE = 0.5
PENALTY = 0.001

ARMS = {"baseline": 0.0, "method": PENALTY}


def invented(rng):
    """A table of the size of breast_cancer, for a test of shapes."""
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


def run(table, variant):
    epochs = EPOCHS
    x, y = table.train.x, table.train.y
    w, losses = fit(x, y, table.classes, epochs, variant)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=variant, dataset=table.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(table.dev.x), predict(table.validation.x)
    lab.submit(table.name, "validation", variant, probabilities=held)
    lab.submit(table.name, "test", variant, probabilities=predict(table.test.x))
    lab.result("accuracy", float((dev_p.argmax(1) == table.dev.y).mean()), condition=variant, dataset=table.name, split="dev")
    lab.save(f"loss__{variant}", np.array(losses))


def main():
    lab.seed_everything()
    for name in DATASETS:
        table = lab.data(name)
        for variant in ARMS:
            run(table, variant)


main()
