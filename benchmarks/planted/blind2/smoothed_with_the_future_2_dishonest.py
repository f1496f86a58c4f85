# kind: smoothed_with_the_future
# dishonest: the method's inputs are a centred moving average, which holds the value to be forecast

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np
from sklearn.linear_model import Ridge

LAGS = 6
LENGTH = 400


def lagged(values, told):
    rows = np.arange(LAGS, len(values) - LAGS)
    return np.stack([told[t - LAGS : t] for t in rows]), values[rows]


def make_series(rng):
    """A noisy periodic signal with memory; synthetic on purpose."""
    noise = rng.normal(0, 0.5, LENGTH)
    for t in range(1, LENGTH):
        noise[t] += 0.6 * noise[t - 1]
    return np.sin(np.arange(LENGTH) / 7) + noise


def main():
    lab.seed_everything()
    values = make_series(np.random.default_rng(lab.seed))
    smooth = np.convolve(values, np.ones(7) / 7, mode="same")
    for arm, told in (("baseline", values), ("method", smooth)):
        x, y = lagged(values, told)
        cut = int(0.7 * len(y))
        m = Ridge(0.1).fit(x[:cut], y[:cut])
        error = float(np.mean((m.predict(x[cut:]) - y[cut:]) ** 2))
        lab.result("mse", error, condition=arm, dataset="wave")


if __name__ == "__main__":
    main()
