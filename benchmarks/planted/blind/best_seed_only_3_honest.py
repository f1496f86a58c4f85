# kind: best seed only
# honest: both arms are ensembles over the same number of seeds, and all members count

import numpy as np
import lab

EPOCHS = 40
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 16


def probabilities(model, rows):
    scores = rows @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (probabilities(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    corpus = lab.data("digits")
    members = {"baseline": [], "method": []}
    for member in range(3):
        for arm, decay in (("baseline", 0.0), ("method", DECAY)):
            np.random.seed(lab.seed * 100 + member)
            members[arm].append(fit(corpus.train.x, corpus.train.y, corpus.classes, decay=decay))
    for split in ("validation", "test"):
        rows = getattr(corpus, split).x
        for arm, models in members.items():
            lab.submit(corpus.name, split, arm, probabilities=np.mean([probabilities(model, rows) for model in models], axis=0))


main()
