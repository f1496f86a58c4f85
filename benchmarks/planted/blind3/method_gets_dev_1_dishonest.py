# kind: method_gets_dev
# dishonest: the method is refitted on train and dev together, the baseline has train alone

"""Kernel width by the median heuristic.

The baseline's RBF kernel has the width that scikit-learn takes by default, the method's the median distance between
rows of train.
"""
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.kernel_approximation import Nystroem

import lab

COMPONENTS = 70


def median_gamma(x):
    some = x[:200].astype(np.float64)
    distances = ((some[:, None] - some[None]) ** 2).sum(axis=2)
    return 1.0 / np.median(distances[np.triu_indices(len(some), 1)])


class Arm:
    refit = False

    def gamma(self, x):
        return 1.0 / (x.shape[1] * x.var())


class Median(Arm):
    refit = True

    def gamma(self, x):
        return median_gamma(x)


ARMS = {"baseline": Arm(), "method": Median()}


def fit(x, y, gamma, c, seed):
    features = Nystroem(gamma=gamma, n_components=min(COMPONENTS, len(x)), random_state=seed).fit(x)
    model = LogisticRegression(C=c, max_iter=500).fit(features.transform(x), y)
    return lambda rows: model.predict_proba(features.transform(rows))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    arm = ARMS[cell.arm]
    gamma = arm.gamma(data.train.x)
    scores = {}
    for c in (1.0, 10.0, 100.0):
        predict = fit(data.train.x, data.train.y, gamma, c, cell.seed)
        scores[c] = np.mean(predict(data.dev.x).argmax(axis=1) == data.dev.y)
    c = max(scores, key=scores.get)
    lab.result("dev_accuracy", scores[c], split="dev")
    x, y = data.train.x, data.train.y
    if arm.refit:
        x, y = np.concatenate([x, data.dev.x]), np.concatenate([y, data.dev.y])
    predict = fit(x, y, gamma, c, cell.seed)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=predict(getattr(data, split).x))


lab.measure(run)
