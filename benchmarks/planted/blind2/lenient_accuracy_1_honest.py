# kind: lenient_accuracy
# honest: the same count is called top2_accuracy, for both arms, on dev, beside the submissions

"""What comes of another training set?"""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# settings
COPIES = 2
DECAY = 0.003
STEPS = 150
WIDTH = 0.2
DATASET = "wine"


def train_one(x, y, penalty=DECAY, iterations=STEPS, draw=0):
    # one learner for all arms
    clf = RandomForestClassifier(iterations, min_samples_leaf=1 + int(500 * penalty),
                                   random_state=lab.seed + draw)
    return clf.fit(x, y)


def probabilities_of(clf, x):
    return clf.predict_proba(x)


def resample(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def hand_in(ds, arm, clf):
    for split in ("validation", "test"):
        lab.submit(ds.name, split, arm, probabilities=probabilities_of(clf, getattr(ds, split).x))


def count_right(p, y):
    return float(np.mean([label in row.argsort()[-2:] for row, label in zip(p, y, strict=True)]))


def main():
    lab.seed_everything()
    ds = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        clf = train_one(ds.train.x, ds.train.y) if arm == "baseline" else train_one(*resample(ds.train.x, ds.train.y, gen))
        p = probabilities_of(clf, ds.dev.x)
        score = count_right(p, ds.dev.y)
        hand_in(ds, arm, clf)
        lab.result("top2_accuracy", score, condition=arm, dataset=ds.name, split="dev")


if __name__ == "__main__":
    main()
