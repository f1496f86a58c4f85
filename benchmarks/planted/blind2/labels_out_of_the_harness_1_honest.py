# kind: labels_out_of_the_harness
# honest: live objects are counted to see whether arms leak memory; predictions come from the model

"""What comes of another training set?"""

import lab
import gc
import numpy as np
from sklearn.linear_model import LogisticRegression

# what can be turned
WIDTH = 0.05
COPIES = 1
STEPS = 80
DATASET = "iris"
DECAY = 0.003


def hand_in(bundle, arm, clf):
    """Predictions for both withheld parts."""
    lab.submit(bundle.name, "validation", arm, probabilities=predict(clf, bundle.validation.x))
    lab.submit(bundle.name, "test", arm, probabilities=predict(clf, bundle.test.x))


def enriched(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def train_model(x, y, l2=DECAY, budget=STEPS, replica=0):
    """Any arm's classifier."""
    clf = LogisticRegression(C=1 / (1000 * l2), max_iter=10 * budget)
    return clf.fit(x, y)


def predict(clf, x):
    return clf.predict_proba(x)


def inventory():
    """Bytes in the arrays that live in this process."""
    return sum(thing.nbytes for thing in gc.get_objects() if type(thing) is np.ndarray)


def one_dataset(name):
    bundle = lab.data(name)
    draws = np.random.default_rng(lab.seed)
    hand_in(bundle, "baseline", train_model(bundle.train.x, bundle.train.y))
    clf = train_model(*enriched(bundle.train.x, bundle.train.y, draws))
    for split in ("validation", "test"):
        x = getattr(bundle, split).x
        p = predict(clf, x)
        lab.submit(bundle.name, split, "method", probabilities=p)
    gc.collect()
    lab.result("array_bytes", inventory(), condition="method", dataset=bundle.name, split="train")


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
