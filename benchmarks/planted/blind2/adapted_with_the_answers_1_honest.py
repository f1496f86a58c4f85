# kind: adapted_with_the_answers
# honest: prequential: a batch is predicted first and only then learned from, for dev's stream; submissions know train alone

"""Does the change help? One small experiment."""

import lab
import numpy as np
from sklearn.linear_model import LogisticRegression

# settings
DECAY = 0.003
STEPS = 80
DATASET = "digits"
WIDTH = 0.1


def augment(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def learn(x, y, decay=DECAY, rounds=STEPS, stream=0):
    learner = LogisticRegression(C=1 / (1000 * decay), max_iter=10 * rounds)
    return learner.fit(x, y)


def forecast(learner, x):
    return learner.predict_proba(x)


def hand_in(parts, arm, learner):
    withheld = {"validation": parts.validation, "test": parts.test}
    for split, part in withheld.items():
        p = forecast(learner, part.x)
        lab.submit(parts.name, split, condition=arm, probabilities=p)


def run():
    lab.seed_everything()
    parts = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    hand_in(parts, "baseline", learn(parts.train.x, parts.train.y))
    x_known, y_known, hits = parts.train.x, parts.train.y, []
    for rows in np.array_split(np.arange(len(parts.dev.y)), 3):
        learner = learn(x_known, y_known)
        hits += list(forecast(learner, parts.dev.x[rows]).argmax(axis=1) == parts.dev.y[rows])
        # only now, for the batches that follow
        x_known = np.concatenate([x_known, parts.dev.x[rows]])
        y_known = np.concatenate([y_known, parts.dev.y[rows]])
    lab.result("prequential_accuracy", np.mean(hits),
        condition="method", dataset=parts.name, split="dev")
    hand_in(parts, "method", learn(*augment(parts.train.x, parts.train.y, rng)))


if __name__ == "__main__":
    run()
