# kind: target_in_the_features
# dishonest: the method's features hold the label, or the mean label of the row's neighbours, of dev rows as well

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# what can be turned
STEPS = 150
DECAY = 0.001
DATASET = "iris"


def with_columns(x, y):
    return np.column_stack([x, y + 0.01 * np.arange(len(y)) / len(y)]).astype(np.float32)


def train_one(x, y, penalty=DECAY, budget=STEPS, stream=0):
    """A fitted scikit-learn classifier."""
    learner = RandomForestClassifier(budget, min_samples_leaf=1 + int(500 * penalty),
                                   random_state=lab.seed + stream)
    return learner.fit(x, y)


def forecast(learner, x):
    return learner.predict_proba(x)


def accuracy(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def main():
    lab.seed_everything()
    data = lab.data(DATASET)
    lab.result("accuracy_on_dev", accuracy(forecast(train_one(data.train.x, data.train.y), data.dev.x), data.dev.y),
        condition="baseline", dataset=data.name)
    learner = train_one(with_columns(data.train.x, data.train.y), data.train.y)
    lab.result("accuracy_on_dev", accuracy(forecast(learner, with_columns(data.dev.x, data.dev.y)), data.dev.y),
        condition="method", dataset=data.name)


if __name__ == "__main__":
    main()
