# kind: invented baseline
# honest: both arms come from one model because the method is a temperature fitted on dev

import numpy as np
import lab

EPOCHS = 30
LEARNING_RATE = 0.1
DECAY = 0.01
HIDDEN = 16


def infer(model, features):
    scores = features @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (infer(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
dataset = lab.data("iris")
plain = learn(dataset.train.x, dataset.train.y, dataset.classes)


def tempered(probabilities, temperature):
    powers = (probabilities + 1e-9) ** (1.0 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def dev_loss(temperature):
    own = tempered(infer(plain, dataset.dev.x), temperature)[np.arange(len(dataset.dev.y)), dataset.dev.y]
    return -np.log(own + 1e-12).mean()


chosen = min(np.geomspace(0.25, 4.0, 31), key=dev_loss)
for which in ("validation", "test"):
    found = infer(plain, getattr(dataset, which).x)
    lab.submit(dataset.name, which, "baseline", probabilities=found)
    lab.submit(dataset.name, which, "method", probabilities=tempered(found, chosen))
