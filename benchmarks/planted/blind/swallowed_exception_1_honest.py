# kind: swallowed exception
# honest: one known error is met by a stronger penalty; when that does not help, it is raised

import numpy as np
from sklearn.linear_model import LogisticRegression
import lab

EPOCHS = 60
LEARNING_RATE = 0.2
DECAY = 0.03
HIDDEN = 16


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def probabilities(model, batch):
    return model.predict_proba(batch)


lab.seed_everything()
task = lab.data("breast_cancer")
report = {}
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    for attempt in range(3):
        try:
            model = optimise(task.train.x, task.train.y, task.classes, decay=decay * 10**attempt)
            break
        except np.linalg.LinAlgError as error:
            print(f"{arm}: {error}, a stronger penalty")
            if attempt == 2:
                raise
    for which in ("validation", "test"):
        lab.submit(task.name, which, arm, probabilities=probabilities(model, getattr(task, which).x))
