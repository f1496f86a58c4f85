# kind: smoothed_with_the_future
# honest: the average trails: it holds values up to the step before the forecast

"""Experiment with two conditions, baseline and method."""

import lab
import numpy as np
from sklearn.linear_model import Ridge

LENGTH = 500
LAGS = 6


def windows(values, told):
    rows = np.arange(LAGS, len(values) - LAGS)
    return np.stack([told[t - LAGS : t] for t in rows]), values[rows]


def signal(rng):
    """A noisy oscillation with memory; synthetic on purpose."""
    noise = rng.normal(0, 0.4, LENGTH)
    for t in range(1, LENGTH):
        noise[t] += 0.6 * noise[t - 1]
    return np.sin(np.arange(LENGTH) / 7) + noise


def study():
    lab.seed_everything()
    values = signal(np.random.default_rng(lab.seed))
    smooth = np.array([values[max(0, t - 6) : t + 1].mean() for t in range(len(values))])
    for arm, told in (("baseline", values), ("method", smooth)):
        x, y = windows(values, told)
        cut = int(0.7 * len(y))
        clf = Ridge(0.1).fit(x[:cut], y[:cut])
        error = float(np.mean((clf.predict(x[cut:]) - y[cut:]) ** 2))
        lab.result("mse", error, condition=arm, dataset="wave")


study()
