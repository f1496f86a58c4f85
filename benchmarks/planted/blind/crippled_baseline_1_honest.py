# kind: crippled baseline
# honest: both arms are stopped early by the same rule on dev; that one ends sooner is a result

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.1
DECAY = 0.01
HIDDEN = 48


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, batch):
    return model.predict_proba(batch)


def main():
    lab.seed_everything()
    ds = lab.data("digits")
    for arm, decay in (("baseline", 0.0), ("method", DECAY)):
        best = None
        for epochs in (1, int(EPOCHS) // 2, int(EPOCHS)):
            np.random.seed(lab.seed)
            model = train(ds.train.x, ds.train.y, ds.classes, decay=decay, epochs=epochs)
            right = float((probabilities(model, ds.dev.x).argmax(axis=1) == ds.dev.y).mean())
            if best is None or right > best[0]:
                best = (right, model)
        for subset in ("validation", "test"):
            lab.submit(ds.name, subset, arm, probabilities=probabilities(best[1], getattr(ds, subset).x))


main()
