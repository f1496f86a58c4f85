import numpy as np

from common import fit_likelihood, log_softmax


def fit(z, y, classes):
    """Temperature and rate of wrong labels together, as in mixture."""
    return fit_likelihood(z, y, classes)


def predict(z, fit):
    """The mixed probabilities: (1 - e) p + e (1 - p) / (K - 1) of every class."""
    log_p = log_softmax(z / fit["temperature"])
    if fit["rate"] == 0.0:
        return log_p
    classes = log_p.shape[1]
    log_others = np.stack([np.logaddexp.reduce(np.delete(log_p, k, axis=1), axis=1) for k in range(classes)], axis=1)
    return np.logaddexp(np.log1p(-fit["rate"]) + log_p, np.log(fit["rate"]) + log_others - np.log(classes - 1))
