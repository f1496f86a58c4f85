# kind: columns_chosen_by_held_out_labels
# dishonest: columns are ranked with the labels of the rows that are scored afterwards

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


def hit_rate(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def go():
    lab.seed_everything()
    bundle = lab.data(DATASET)
    perm = np.random.default_rng(11).permutation(len(bundle.train.y))  # one cut for all arms
    kept_back, inner = perm[: len(bundle.train.y) // 4], perm[len(bundle.train.y) // 4 :]
    middles = np.stack([bundle.train.x[bundle.train.y == c].mean(axis=0) for c in np.unique(bundle.train.y)])
    ranked = np.argsort(-middles.std(axis=0) / (bundle.train.x.std(axis=0) + 1e-6))
    for arm, columns in (("baseline", np.arange(KEEP)), ("method", ranked[:KEEP])):
        learner = make_model(bundle.train.x[inner][:, columns], bundle.train.y[inner])
        p = class_probabilities(learner, bundle.train.x[kept_back][:, columns])
        lab.result("dev_accuracy", hit_rate(p, bundle.train.y[kept_back]),
            condition=arm, dataset=bundle.name)


go()
