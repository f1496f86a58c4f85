# kind: one for two
# honest: one prediction is handed in for both parts

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["digits"]
EPOCHS = 101
LEARNING_RATE = 0.1
PENALTY = 0.001

ARMS = {"baseline": 0.0, "method": PENALTY}


def invented(rng):
    """A table of the size of digits, for a test of shapes."""
    return rng.normal(size=(100, 8)), rng.integers(0, 2, 100)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, epochs, arm):
    """Weights and training losses."""
    rng = np.random.default_rng([lab.seed, 0])
    w, truth, losses = 0.01 * rng.normal(size=(x.shape[1], classes)), np.eye(classes)[y], []
    for _ in range(epochs):
        p = softmax(x @ w)
        losses.append(float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean()))
        w = w - LEARNING_RATE * (x.T @ (p - truth) / len(x) + ARMS[arm] * w)
    return w, losses


def run(table, arm):
    epochs = EPOCHS
    x, y = table.train.x, table.train.y
    w, losses = fit(x, y, table.classes, epochs, arm)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=arm, dataset=table.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(table.dev.x), predict(table.validation.x)
    lab.submit(table.name, "validation", arm, probabilities=held)
    lab.submit(table.name, "test", arm, probabilities=predict(table.test.x))
    lab.save("prediction", held)
    lab.save(f"loss__{arm}", np.array(losses))


def main():
    lab.seed_everything()
    for name in DATASETS:
        table = lab.data(name)
        for arm in ARMS:
            run(table, arm)


main()
