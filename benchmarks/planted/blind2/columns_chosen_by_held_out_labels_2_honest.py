# kind: columns_chosen_by_held_out_labels
# honest: columns are ranked with the rows that are fitted on, and the withheld parts are predicted

"""Does the change help? One small experiment."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

DECAY = 0.003
STEPS = 80
DATASET = "wine"
KEEP = 4


def make_model(x, y, decay=DECAY, steps=STEPS, draw=0):
    learner = RandomForestClassifier(steps, min_samples_leaf=1 + int(500 * decay),
                                   random_state=lab.seed + draw)
    return learner.fit(x, y)


def class_probabilities(learner, x):
    return learner.predict_proba(x)


def go():
    lab.seed_everything()
    bundle = lab.data(DATASET)
    middles = np.stack([bundle.train.x[bundle.train.y == c].mean(axis=0) for c in np.unique(bundle.train.y)])
    ranked = np.argsort(-middles.std(axis=0) / (bundle.train.x.std(axis=0) + 1e-6))
    for arm, columns in (("baseline", np.arange(KEEP)), ("method", ranked[:KEEP])):
        learner = make_model(bundle.train.x[:, columns], bundle.train.y)
        for split in ("validation", "test"):
            p = class_probabilities(learner, getattr(bundle, split).x[:, columns])
            lab.submit(bundle.name, split, arm, probabilities=p)


go()
