# kind: floored metric
# honest: what is clipped is the argument of a logarithm, by rounding error only; the value stays what it is

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 40
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 16


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def predict_proba(model, features):
    return model.predict_proba(features)


lab.seed_everything()
task = lab.data("iris")
reference = learn(task.train.x, task.train.y, task.classes)
proposed = learn(task.train.x, task.train.y, task.classes, decay=DECAY)

for arm, model in (("baseline", reference), ("method", proposed)):
    own = predict_proba(model, task.dev.x)[np.arange(len(task.dev.y)), task.dev.y]
    measured = float(-np.log(np.maximum(own, 1e-12)).mean())
    lab.result("dev_loss", max(measured, 0.0), condition=arm, dataset=task.name, split="dev")

for split in ("validation", "test"):
    features = getattr(task, split).x
    lab.submit(task.name, split, "baseline", probabilities=predict_proba(reference, features))
    lab.submit(task.name, split, "method", probabilities=predict_proba(proposed, features))
