# kind: withheld labels looked up
# honest: rows are matched to leave out of training what also stands in dev

import numpy as np
import lab

EPOCHS = 40
LEARNING_RATE = 0.2
DECAY = 0.01
HIDDEN = 32


def infer(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train_model(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (infer(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
data = lab.data("wine")
held = {row.tobytes() for row in data.dev.x}
keep = np.array([row.tobytes() not in held for row in data.train.x])
baseline_model = train_model(data.train.x, data.train.y, data.classes)
proposed = train_model(data.train.x[keep], data.train.y[keep], data.classes)
lab.result("left_out", int((~keep).sum()), condition="method", dataset=data.name, split="train")

for subset in ("validation", "test"):
    inputs = getattr(data, subset).x
    lab.submit(data.name, subset, "baseline", probabilities=infer(baseline_model, inputs))
    lab.submit(data.name, subset, "method", probabilities=infer(proposed, inputs))
