from common import log_softmax


def fit(z, y, classes):
    """Sees no calibration label."""
    return {"temperature": 1.0, "rate": 0.0}


def predict(z, fit):
    return log_softmax(z)
