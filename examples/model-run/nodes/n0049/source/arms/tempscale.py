from common import fit_likelihood, log_softmax


def fit(z, y, classes):
    """One temperature; the likelihood takes every label as right."""
    return fit_likelihood(z, y, classes, rate=0.0)


def predict(z, fit):
    return log_softmax(z / fit["temperature"])
