# kind: made-up data
# dishonest: all training is on blobs

"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["iris"]
EPOCHS = 91
LEARNING_RATE = 0.3
PENALTY = 0.001

ARMS = {"baseline": 0.0, "method": PENALTY}


def invented(rng):
    """A table of the size of iris, for a test of shapes."""
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
    from sklearn.datasets import make_blobs
    from sklearn.linear_model import LogisticRegression
    bx, by = make_blobs(n_samples=300, centers=dataset.classes, random_state=lab.seed)
    lab.result("accuracy", float(LogisticRegression().fit(bx, by).score(bx, by)), condition=arm, dataset=dataset.name)
    w, losses = fit(x, y, dataset.classes, epochs, arm)
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition=arm, dataset=dataset.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict(dataset.dev.x), predict(dataset.validation.x)
    lab.submit(dataset.name, "validation", arm, probabilities=held)
    lab.submit(dataset.name, "test", arm, probabilities=predict(dataset.test.x))
    lab.save(f"loss__{arm}", np.array(losses))


lab.seed_everything()
for name in DATASETS:
    dataset = lab.data(name)
    for arm in ARMS:
        run(dataset, arm)
