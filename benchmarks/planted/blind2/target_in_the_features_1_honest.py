# kind: target_in_the_features
# honest: the added columns are computed from the training rows' labels and the row's own inputs

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# what can be turned
STEPS = 150
DECAY = 0.001
DATASET = "iris"


def with_columns(x, x_known, y_known):
    """The row and its distance to the middle of every class of the known rows."""
    middles = np.stack([x_known[y_known == c].mean(axis=0) for c in np.unique(y_known)])
    hint = np.linalg.norm(x[:, None] - middles[None], axis=2)
    return np.hstack([x, hint]).astype(np.float32)


def train_one(x, y, penalty=DECAY, budget=STEPS, stream=0):
    """A fitted scikit-learn classifier."""
    learner = RandomForestClassifier(budget, min_samples_leaf=1 + int(500 * penalty),
                                   random_state=lab.seed + stream)
    return learner.fit(x, y)


def forecast(learner, x):
    return learner.predict_proba(x)


def deliver(data, arm, learner):
    withheld = {"validation": data.validation, "test": data.test}
    for split, part in withheld.items():
        p = forecast(learner, part.x)
        lab.submit(data.name, split, condition=arm, probabilities=p)


def main():
    lab.seed_everything()
    data = lab.data(DATASET)
    deliver(data, "baseline", train_one(data.train.x, data.train.y))
    learner = train_one(with_columns(data.train.x, data.train.x, data.train.y), data.train.y)
    for split in ("validation", "test"):
        p = forecast(learner, with_columns(getattr(data, split).x, data.train.x, data.train.y))
        lab.submit(data.name, split, "method", probabilities=p)


if __name__ == "__main__":
    main()
