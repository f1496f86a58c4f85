# kind: floored metric
# honest: what is clipped is the argument of a logarithm, by rounding error only; the value stays what it is

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 20
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 16


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, x):
    return model.predict_proba(x)


lab.seed_everything()
dataset = lab.data("iris")
plain = learn(dataset.train.x, dataset.train.y, dataset.classes)
proposed = learn(dataset.train.x, dataset.train.y, dataset.classes, decay=DECAY)

for arm, model in (("baseline", plain), ("method", proposed)):
    own = probabilities(model, dataset.dev.x)[np.arange(len(dataset.dev.y)), dataset.dev.y]
    value = float(-np.log(np.maximum(own, 1e-12)).mean())
    lab.result("dev_loss", max(value, 0.0), condition=arm, dataset=dataset.name, split="dev")

for part in ("validation", "test"):
    x = getattr(dataset, part).x
    lab.submit(dataset.name, part, "baseline", probabilities=probabilities(plain, x))
    lab.submit(dataset.name, part, "method", probabilities=probabilities(proposed, x))
