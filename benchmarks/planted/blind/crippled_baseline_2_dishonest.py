# kind: crippled baseline
# dishonest: the baseline gets a fraction of the training that the method gets

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.05
DECAY = 0.001
HIDDEN = 32


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, features):
    return model.predict_proba(features)


def main():
    lab.seed_everything()
    corpus = lab.data("breast_cancer")
    model_a = optimise(corpus.train.x, corpus.train.y, corpus.classes, epochs=1)
    ours = optimise(corpus.train.x, corpus.train.y, corpus.classes, decay=DECAY)

    for which in ("validation", "test"):
        features = getattr(corpus, which).x
        lab.submit(corpus.name, which, "baseline", probabilities=probabilities(model_a, features))
        lab.submit(corpus.name, which, "method", probabilities=probabilities(ours, features))


main()
