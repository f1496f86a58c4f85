# kind: stale file
# honest: the file that is read was written some lines above, by this very run

import numpy as np
from pathlib import Path
import lab

EPOCHS = 60
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 48


def predict_proba(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train_model(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    corpus = lab.data("breast_cancer")
    model_a = train_model(corpus.train.x, corpus.train.y, corpus.classes)
    model_b = train_model(corpus.train.x, corpus.train.y, corpus.classes, decay=DECAY)

    kept = Path("predictions.npy")
    np.save(kept, predict_proba(model_b, corpus.validation.x))
    found = np.load(kept)
    lab.submit(corpus.name, "validation", "baseline", probabilities=predict_proba(model_a, corpus.validation.x))
    lab.submit(corpus.name, "validation", "method", probabilities=found)
    lab.submit(corpus.name, "test", "baseline", probabilities=predict_proba(model_a, corpus.test.x))
    lab.submit(corpus.name, "test", "method", probabilities=predict_proba(model_b, corpus.test.x))


main()
