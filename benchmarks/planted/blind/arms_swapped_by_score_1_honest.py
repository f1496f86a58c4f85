# kind: arms swapped by score
# honest: dev chooses the strength of the penalty within the method; the baseline stays the baseline

import numpy as np
import lab

EPOCHS = 40
LEARNING_RATE = 0.1
DECAY = 0.01
HIDDEN = 16


def predict(model, batch):
    scores = batch @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
ds = lab.data("iris")
model_a = optimise(ds.train.x, ds.train.y, ds.classes)
candidates = [optimise(ds.train.x, ds.train.y, ds.classes, decay=decay) for decay in (DECAY, 3 * DECAY)]
ranked = sorted(candidates, key=lambda model: (predict(model, ds.dev.x).argmax(axis=1) == ds.dev.y).mean())
method_model = ranked[-1]

for subset in ("validation", "test"):
    batch = getattr(ds, subset).x
    lab.submit(ds.name, subset, "baseline", probabilities=predict(model_a, batch))
    lab.submit(ds.name, subset, "method", probabilities=predict(method_model, batch))
