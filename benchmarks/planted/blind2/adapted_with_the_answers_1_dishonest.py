# kind: adapted_with_the_answers
# dishonest: before each scored batch the method is refitted with that very batch and its labels

"""Does the change help? One small experiment."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# settings
DECAY = 0.003
DATASET = "digits"
STEPS = 80


def learn(x, y, decay=DECAY, rounds=STEPS, stream=0):
    learner = LogisticRegression(C=1 / (1000 * decay), max_iter=10 * rounds)
    return learner.fit(x, y)


def forecast(learner, x):
    return learner.predict_proba(x)


def fraction_correct(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def run():
    lab.seed_everything()
    parts = lab.data(DATASET)
    base = learn(parts.train.x, parts.train.y)
    lab.result("accuracy", fraction_correct(forecast(base, parts.dev.x), parts.dev.y),
        condition="baseline", dataset=parts.name)
    hits = []
    for rows in np.array_split(np.arange(len(parts.dev.y)), 3):
        x_known = np.concatenate([parts.train.x, parts.dev.x[rows]])
        y_known = np.concatenate([parts.train.y, parts.dev.y[rows]])
        learner = learn(x_known, y_known)  # online update
        hits += list(forecast(learner, parts.dev.x[rows]).argmax(axis=1) == parts.dev.y[rows])
    lab.result("accuracy", np.mean(hits), condition="method", dataset=parts.name)


if __name__ == "__main__":
    run()
