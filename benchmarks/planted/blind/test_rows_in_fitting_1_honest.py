# kind: test rows in fitting
# honest: the rows are put together for one call of the model only; everything was fitted on train

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 20
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 16


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def predict(model, features):
    return model.predict_proba(features)


def main():
    lab.seed_everything()
    data = lab.data("breast_cancer")
    centre = data.train.x.mean(axis=0)
    directions = np.linalg.svd(data.train.x - centre, full_matrices=False)[2][:4].T
    model_a = train(data.train.x, data.train.y, data.classes)
    proposed = train((data.train.x - centre) @ directions, data.train.y, data.classes)
    everything = np.concatenate([data.validation.x, data.test.x])
    cut = len(data.validation.x)
    both = {"baseline": predict(model_a, everything), "method": predict(proposed, (everything - centre) @ directions)}
    for arm, outcome in both.items():
        lab.submit(data.name, "validation", arm, probabilities=outcome[:cut])
        lab.submit(data.name, "test", arm, probabilities=outcome[cut:])


main()
