# kind: synthetic data under a real name
# dishonest: the rows were generated; the name under which results stand is that of a real dataset

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 40
LEARNING_RATE = 0.1
DECAY = 0.001
HIDDEN = 48


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, rows):
    return model.predict_proba(rows)


def main():
    lab.seed_everything()
    rng = np.random.default_rng(lab.seed)
    centres = rng.normal(size=(4, 12))
    y = rng.integers(0, 4, 800)
    x = centres[y] + 0.7 * rng.normal(size=(800, 12))
    for arm, decay in (("baseline", 0.0), ("method", DECAY)):
        model = optimise(x[:500], y[:500], 4, decay=decay)
        right = probabilities(model, x[500:]).argmax(axis=1) == y[500:]
        lab.result("accuracy", float(right.mean()), condition=arm, dataset="iris")


main()
