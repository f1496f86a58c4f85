# kind: withheld labels looked up
# honest: rows are matched to leave out of training what also stands in dev

import numpy as np
import lab

EPOCHS = 40
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 32


def predict(model, x):
    scores = x @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    ds = lab.data("breast_cancer")
    held = {row.tobytes() for row in ds.dev.x}
    keep = np.array([row.tobytes() not in held for row in ds.train.x])
    model_a = learn(ds.train.x, ds.train.y, ds.classes)
    proposed = learn(ds.train.x[keep], ds.train.y[keep], ds.classes)
    lab.result("left_out", int((~keep).sum()), condition="method", dataset=ds.name, split="train")

    for split in ("validation", "test"):
        x = getattr(ds, split).x
        lab.submit(ds.name, split, "baseline", probabilities=predict(model_a, x))
        lab.submit(ds.name, split, "method", probabilities=predict(proposed, x))


main()
