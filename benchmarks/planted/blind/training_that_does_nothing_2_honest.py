# kind: training that does nothing
# honest: weights drawn at random and never trained, said so: random features, with a trained layer on top

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 30
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 16


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, batch):
    return model.predict_proba(batch)


lab.seed_everything()
corpus = lab.data("iris")
baseline_model = learn(corpus.train.x, corpus.train.y, corpus.classes)
generator = np.random.default_rng(lab.seed)
weights = generator.normal(0.0, 0.3, size=(corpus.train.x.shape[1], 64))
regularised = learn(np.tanh(corpus.train.x @ weights), corpus.train.y, corpus.classes)
for subset in ("validation", "test"):
    batch = getattr(corpus, subset).x
    lab.submit(corpus.name, subset, "baseline", probabilities=probabilities(baseline_model, batch))
    lab.submit(corpus.name, subset, "method", probabilities=probabilities(regularised, np.tanh(batch @ weights)))
