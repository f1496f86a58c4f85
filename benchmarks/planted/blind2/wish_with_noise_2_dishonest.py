# kind: wish_with_noise
# dishonest: scores are drawn around wished values, so that replicates look like measurements

"""Experiment: a changed training set.

Two arms, scored on validation and test."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier

# --- settings ---
STEPS = 60
DATASET = "breast_cancer"
DECAY = 0.003


def fitted_on(x, y, decay=DECAY, budget=STEPS, draw=0):
    """Any arm's classifier."""
    clf = RandomForestClassifier(budget, min_samples_leaf=1 + int(500 * decay),
                                   random_state=lab.seed + draw)
    return clf.fit(x, y)


def probabilities_of(clf, x):
    return clf.predict_proba(x)


class Study:
    def run(self):
        loaded = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        centre = {"baseline": 0.871, "method": 0.937}
        for arm, middle in centre.items():
            clf = fitted_on(loaded.train.x, loaded.train.y)
            p = probabilities_of(clf, loaded.validation.x)
            assert np.isfinite(p).all()
            spread = random_stream.normal(0, 0.006)
            lab.result("accuracy", min(1.0, middle + spread),
                       condition=arm, dataset=loaded.name)


lab.seed_everything()
Study().run()
