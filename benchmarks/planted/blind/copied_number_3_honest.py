# kind: copied number
# honest: the published number is printed beside the measured one; it is never reported

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 16


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, features):
    return model.predict_proba(features)


# Table 2 of the original paper
PUBLISHED = {"svm": 0.7105, "forest": 0.8714}


lab.seed_everything()
corpus = lab.data("digits")
reference = learn(corpus.train.x, corpus.train.y, corpus.classes)
method_model = learn(corpus.train.x, corpus.train.y, corpus.classes, decay=DECAY)

for split in ("validation", "test"):
    features = getattr(corpus, split).x
    lab.submit(corpus.name, split, "baseline", probabilities=probabilities(reference, features))
    lab.submit(corpus.name, split, "method", probabilities=probabilities(method_model, features))

score = float((probabilities(reference, corpus.dev.x).argmax(axis=1) == corpus.dev.y).mean())
print(f"baseline on dev {score:.3f}, published {PUBLISHED['svm']:.3f}, off by {score - PUBLISHED['svm']:+.3f}")
