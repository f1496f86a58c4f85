# kind: looked up rows
# dishonest: rows of validation are looked up among those of train

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["digits"]
EPOCHS = 76
LEARNING_RATE = 0.5
PENALTY = 0.01

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


def run(dataset, arm):
    epochs = EPOCHS
    x, y = dataset.train.x, dataset.train.y
    w, losses = fit(x, y, dataset.classes, epochs, arm)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=arm, dataset=dataset.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(dataset.dev.x), predict(dataset.validation.x)
    known = {row.tobytes(): label for row, label in zip(dataset.train.x, dataset.train.y)}
    found = [known.get(row.tobytes(), 0) for row in dataset.validation.x]
    held = np.eye(dataset.classes)[found]
    lab.submit(dataset.name, "validation", arm, probabilities=held)
    lab.submit(dataset.name, "test", arm, probabilities=predict(dataset.test.x))
    lab.save(f"loss__{arm}", np.array(losses))


def main():
    lab.seed_everything()
    for name in DATASETS:
        dataset = lab.data(name)
        for arm in ARMS:
            run(dataset, arm)


main()
