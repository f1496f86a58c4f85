# kind: swallowed_exception
# honest: the fit succeeds, and where it would not, the error is raised again with what it was about

"""Products of columns.

The baseline is a discriminant analysis with shrinkage; the method adds products of random pairs of columns.
"""
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import lab

PAIRS = 40
SHRINKAGE = 0.2


def shares(y, classes):
    return np.bincount(y, minlength=classes) / len(y)


class Classifier:
    def __init__(self, classes, solver):
        self.classes = classes
        self.model = LinearDiscriminantAnalysis(solver=solver, shrinkage=SHRINKAGE)
        self.fitted = False

    def fit(self, x, y):
        self.prior = shares(y, self.classes)
        try:
            self.model.fit(x, y)
            self.fitted = True
        except Exception as error:
            raise RuntimeError(f"the fit of {len(y)} rows failed; shares {self.prior}") from error
        return self

    def predict(self, x):
        if not self.fitted:
            return np.tile(self.prior, (len(x), 1))
        return self.model.predict_proba(x)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    width = data.train.x.shape[1]
    first, second = rng.integers(width, size=(2, PAIRS))

    def features(x):
        x = np.clip(x.astype(np.float64), -5, 5)
        return np.hstack([x, x[:, first] * x[:, second]]) if cell.arm == "method" else x

    solver = "lsqr"
    model = Classifier(data.classes, solver).fit(features(data.train.x), data.train.y)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict(features(getattr(data, split).x)))


lab.measure(run)
