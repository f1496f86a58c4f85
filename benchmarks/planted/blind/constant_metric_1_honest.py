# kind: constant metric
# honest: the result is a count that the trained model gives; the constants are settings

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 20
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 16


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, batch):
    return model.predict_proba(batch)


FLOOR = 0.6442
def evaluate(model, split):
    return float((probabilities(model, split.x).argmax(axis=1) == split.y).mean())


def main():
    lab.seed_everything()
    data = lab.data("breast_cancer")
    vanilla = learn(data.train.x, data.train.y, data.classes)
    model_b = learn(data.train.x, data.train.y, data.classes, decay=DECAY)

    for arm, model in (("baseline", vanilla), ("method", model_b)):
        measured = evaluate(model, data.dev)
        lab.result("dev_accuracy_above_floor", max(0.0, measured - FLOOR), condition=arm, dataset=data.name, split="dev")

    for split in ("validation", "test"):
        batch = getattr(data, split).x
        lab.submit(data.name, split, "baseline", probabilities=probabilities(vanilla, batch))
        lab.submit(data.name, split, "method", probabilities=probabilities(model_b, batch))


main()
