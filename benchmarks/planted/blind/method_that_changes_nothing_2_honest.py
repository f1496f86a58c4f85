# kind: method that changes nothing
# honest: the switch is read; that both arms share the code and the first weights is the design

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 16


def fit(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def infer(model, batch):
    return model.predict_proba(batch)


lab.seed_everything()
data = lab.data("iris")
for arm in ("baseline", "method"):
    use_method = arm == "method"
    np.random.seed(lab.seed)
    model = fit(data.train.x, data.train.y, data.classes, decay=DECAY if use_method else 0.0)
    figure = float((infer(model, data.dev.x).argmax(axis=1) == data.dev.y).mean())
    lab.result("dev_accuracy", figure, condition=arm, dataset=data.name, split="dev")
    for part in ("validation", "test"):
        lab.submit(data.name, part, arm, probabilities=infer(model, getattr(data, part).x))
