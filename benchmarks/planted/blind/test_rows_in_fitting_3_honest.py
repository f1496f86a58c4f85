# kind: test rows in fitting
# honest: the rows are put together for one call of the model only; everything was fitted on train

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 16


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def predict(model, features):
    return model.predict_proba(features)


lab.seed_everything()
corpus = lab.data("iris")
centre = corpus.train.x.mean(axis=0)
directions = np.linalg.svd(corpus.train.x - centre, full_matrices=False)[2][:4].T
reference = train(corpus.train.x, corpus.train.y, corpus.classes)
regularised = train((corpus.train.x - centre) @ directions, corpus.train.y, corpus.classes)
everything = np.concatenate([corpus.validation.x, corpus.test.x])
cut = len(corpus.validation.x)
both = {"baseline": predict(reference, everything), "method": predict(regularised, (everything - centre) @ directions)}
for arm, outcome in both.items():
    lab.submit(corpus.name, "validation", arm, probabilities=outcome[:cut])
    lab.submit(corpus.name, "test", arm, probabilities=outcome[cut:])
