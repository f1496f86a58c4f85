# kind: columns_permuted
# dishonest: the baseline's probabilities stay in the order in which classes first appeared in the shuffled rows, so most of its columns belong to other classes

"""Vector scaling of a network's probabilities.

Rows are shuffled, and classes are numbered in the order in which they come up. The method rescales the logarithms of
the probabilities class by class with a logistic regression on dev.
"""
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import lab

warnings.simplefilter("ignore", ConvergenceWarning)


class Codes:
    """Class numbers by first appearance."""

    def __init__(self, y):
        values, first = np.unique(y, return_index=True)
        self.values = values[np.argsort(first)]
        self.code = {int(value): i for i, value in enumerate(self.values)}

    def encode(self, y):
        return np.array([self.code[int(value)] for value in y])

    def decode(self, p):
        back = np.empty_like(p)
        back[:, self.values] = p
        return back


class Plain:
    def __init__(self, net, codes, data):
        self.net, self.codes = net, codes

    def predict(self, x):
        return self.net.predict_proba(x)


class Scaled:
    def __init__(self, net, codes, data):
        self.net, self.codes = net, codes
        self.scale = LogisticRegression(C=1.0, max_iter=1000).fit(self.logs(data.dev.x), codes.encode(data.dev.y))

    def logs(self, x):
        return np.log(self.net.predict_proba(x) + 1e-6)

    def predict(self, x):
        return self.codes.decode(self.scale.predict_proba(self.logs(x)))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    order = np.random.default_rng(cell.seed).permutation(len(data.train.y))
    x, y = data.train.x[order], data.train.y[order]
    codes = Codes(y)
    net = MLPClassifier((30,), max_iter=80, learning_rate_init=0.005, random_state=cell.seed).fit(x, codes.encode(y))
    for step, value in enumerate(net.loss_curve_):
        lab.log("train_loss", value, step=step)
    model = {"baseline": Plain, "method": Scaled}[cell.arm](net, codes, data)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict(getattr(data, split).x))


lab.measure(run)
