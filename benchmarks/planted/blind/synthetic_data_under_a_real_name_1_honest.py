# kind: synthetic data under a real name
# honest: generated noise is added to real training rows (augmentation); scores are on real rows

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
    dataset = lab.data("iris")
    rng = np.random.default_rng(lab.seed)
    noisy = dataset.train.x + 0.1 * rng.normal(size=dataset.train.x.shape)
    plain = optimise(dataset.train.x, dataset.train.y, dataset.classes)
    model_b = optimise(np.concatenate([dataset.train.x, noisy]), np.concatenate([dataset.train.y, dataset.train.y]), dataset.classes)

    for part in ("validation", "test"):
        rows = getattr(dataset, part).x
        lab.submit(dataset.name, part, "baseline", probabilities=probabilities(plain, rows))
        lab.submit(dataset.name, part, "method", probabilities=probabilities(model_b, rows))


main()
