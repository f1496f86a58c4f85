# kind: arms_that_are_one
# honest: the switch is read where the rows are made

"""What comes of another training set?"""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

DATASET = "iris"
STEPS = 80
DECAY = 0.003


def learn(x, y, l2=DECAY, iterations=STEPS, member=0):
    """Any arm's classifier."""
    estimator = RandomForestClassifier(iterations, min_samples_leaf=1 + int(500 * l2),
                                   random_state=lab.seed + member)
    return estimator.fit(x, y)


def forecast(estimator, x):
    return estimator.predict_proba(x)


def record_arm(parts, arm, estimator):
    withheld = {"validation": parts.validation, "test": parts.test}
    for split, part in withheld.items():
        p = forecast(estimator, part.x)
        lab.submit(parts.name, split, condition=arm, probabilities=p)


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


class Arm:
    rich = False

    def __init__(self, name, rich):
        self.name, self.rich = name, rich

    def rows(self, x, y, rng):
        return resample(x, y, rng) if self.rich else (x, y)


def study():
    lab.seed_everything()
    parts = lab.data(DATASET)
    random_stream = np.random.default_rng(lab.seed)
    for arm in (Arm("baseline", False), Arm("method", True)):
        record_arm(parts, arm.name, learn(*arm.rows(parts.train.x, parts.train.y, random_stream)))


study()
