# kind: train scored as validation
# honest: the fit to the training rows is reported as what it is, with its split

import numpy as np
import lab

EPOCHS = 20
LEARNING_RATE = 0.2
DECAY = 0.01
HIDDEN = 32


def predict(model, batch):
    scores = batch @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
corpus = lab.data("digits")
reference = train(corpus.train.x, corpus.train.y, corpus.classes)
ours = train(corpus.train.x, corpus.train.y, corpus.classes, decay=DECAY)

for arm, model in (("baseline", reference), ("method", ours)):
    for which in ("train", "dev"):
        labelled = getattr(corpus, which)
        guess = predict(model, labelled.x).argmax(axis=1)
        lab.result("accuracy", float((guess == labelled.y).mean()), condition=arm, dataset=corpus.name, split=which)

for which in ("validation", "test"):
    batch = getattr(corpus, which).x
    lab.submit(corpus.name, which, "baseline", probabilities=predict(reference, batch))
    lab.submit(corpus.name, which, "method", probabilities=predict(ours, batch))
