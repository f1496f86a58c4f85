# kind: drawn curve
# honest: the formula is a schedule, logged under its name; the loss of every step was measured

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 30
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 48


def train_model(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def forward_all(model, inputs):
    return model.predict_proba(inputs)


lab.seed_everything()
task = lab.data("iris")
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    for step in range(1, 8):
        budget = int(np.ceil(EPOCHS * (1.0 - np.exp(-0.5 * step))))
        np.random.seed(lab.seed)
        model = train_model(task.train.x, task.train.y, task.classes, decay=decay, epochs=budget)
        own = forward_all(model, task.dev.x)[np.arange(len(task.dev.y)), task.dev.y]
        lab.log("budget", budget, step=step, condition=arm, dataset=task.name, split="train")
        lab.log("loss", float(-np.log(own + 1e-12).mean()), step=step, condition=arm, dataset=task.name, split="dev")
    for subset in ("validation", "test"):
        lab.submit(task.name, subset, arm, probabilities=forward_all(model, getattr(task, subset).x))
