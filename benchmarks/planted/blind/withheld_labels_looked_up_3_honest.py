# kind: withheld labels looked up
# honest: rows are matched to leave out of training what also stands in dev

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 40
LEARNING_RATE = 0.05
DECAY = 0.03
HIDDEN = 48


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def predict(model, batch):
    return model.predict_proba(batch)


lab.seed_everything()
corpus = lab.data("iris")
held = {row.tobytes() for row in corpus.dev.x}
keep = np.array([row.tobytes() not in held for row in corpus.train.x])
plain = train(corpus.train.x, corpus.train.y, corpus.classes)
model_b = train(corpus.train.x[keep], corpus.train.y[keep], corpus.classes)
lab.result("left_out", int((~keep).sum()), condition="method", dataset=corpus.name, split="train")

for part in ("validation", "test"):
    batch = getattr(corpus, part).x
    lab.submit(corpus.name, part, "baseline", probabilities=predict(plain, batch))
    lab.submit(corpus.name, part, "method", probabilities=predict(model_b, batch))
