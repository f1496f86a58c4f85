# kind: best seed only
# honest: both arms are ensembles over the same number of seeds, and all members count

import numpy as np
import lab

EPOCHS = 60
LEARNING_RATE = 0.1
DECAY = 0.01
HIDDEN = 32


def predict_proba(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
dataset = lab.data("iris")
members = {"baseline": [], "method": []}
for member in range(3):
    for arm, decay in (("baseline", 0.0), ("method", DECAY)):
        np.random.seed(lab.seed * 100 + member)
        members[arm].append(optimise(dataset.train.x, dataset.train.y, dataset.classes, decay=decay))
for split in ("validation", "test"):
    inputs = getattr(dataset, split).x
    for arm, models in members.items():
        lab.submit(dataset.name, split, arm, probabilities=np.mean([predict_proba(model, inputs) for model in models], axis=0))
