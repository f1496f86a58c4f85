# kind: stale file
# honest: the file that is read was written some lines above, by this very run

import numpy as np
import lab

EPOCHS = 30
LEARNING_RATE = 0.2
DECAY = 0.01
HIDDEN = 32


def predict_proba(model, x):
    scores = x @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
task = lab.data("digits")
state = lab.restore()
if state is None:
    state = {"plain": train(task.train.x, task.train.y, task.classes)}
    lab.checkpoint(state)
baseline_model = state["plain"]
model_b = train(task.train.x, task.train.y, task.classes, decay=DECAY)

for subset in ("validation", "test"):
    x = getattr(task, subset).x
    lab.submit(task.name, subset, "baseline", probabilities=predict_proba(baseline_model, x))
    lab.submit(task.name, subset, "method", probabilities=predict_proba(model_b, x))
