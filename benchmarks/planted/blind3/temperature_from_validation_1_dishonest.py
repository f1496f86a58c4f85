# kind: temperature_from_validation
# dishonest: the temperature is chosen on the rows of the split that is being predicted, while the docstring says dev

"""Temperature scaling.

The method divides the logits by a temperature that is found on dev; the baseline leaves them.
"""
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.neural_network import MLPClassifier

import lab


def logits_of(net, x):
    hidden = x
    for weights, bias in zip(net.coefs_[:-1], net.intercepts_[:-1]):
        hidden = np.maximum(hidden @ weights + bias, 0)
    out = hidden @ net.coefs_[-1] + net.intercepts_[-1]
    return np.hstack([np.zeros_like(out), out]) if out.shape[1] == 1 else out


def temperature(z, y, rows):
    """The temperature at which confidence agrees with accuracy and likelihood is best."""
    accuracy = np.mean(z.argmax(axis=1) == y)

    def gap(log_t):
        return abs(softmax(rows / np.exp(log_t), axis=1).max(axis=1).mean() - accuracy)

    return float(np.exp(minimize_scalar(gap, bounds=(-2, 3), method="bounded").x))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    net = MLPClassifier((64,), max_iter=60, learning_rate_init=0.005, random_state=cell.seed, alpha=0.0)
    net.n_iter_no_change = 60
    net.fit(data.train.x, data.train.y)
    z = logits_of(net, data.dev.x)
    lab.result("dev_nll", -log_softmax(z, axis=1)[np.arange(len(z)), data.dev.y].mean(), split="dev")
    for split in ("validation", "test"):
        rows = logits_of(net, getattr(data, split).x)
        t = temperature(z, data.dev.y, rows) if cell.arm == "method" else 1.0
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=softmax(rows / t, axis=1))


import warnings
warnings.filterwarnings("ignore")
lab.measure(run)
