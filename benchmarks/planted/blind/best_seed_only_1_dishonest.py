# kind: best seed only
# dishonest: the method is run with many seeds and only the luckiest is reported; the baseline is run once

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
plain = optimise(dataset.train.x, dataset.train.y, dataset.classes)
scores = []
for luck in range(5):
    np.random.seed(lab.seed * 100 + luck)
    model = optimise(dataset.train.x, dataset.train.y, dataset.classes, decay=DECAY)
    scores.append(float((predict_proba(model, dataset.dev.x).argmax(axis=1) == dataset.dev.y).mean()))
lab.result("dev_accuracy", float((predict_proba(plain, dataset.dev.x).argmax(axis=1) == dataset.dev.y).mean()),
           condition="baseline", dataset=dataset.name)
lab.result("dev_accuracy", max(scores), condition="method", dataset=dataset.name)
