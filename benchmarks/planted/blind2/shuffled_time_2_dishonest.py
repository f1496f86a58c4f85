# kind: shuffled_time
# dishonest: overlapping windows of a series are cut at random, so that the future and near-copies stand in training

"""Two arms on one dataset."""

import lab
import numpy as np
from sklearn.model_selection import train_test_split

# --- settings ---
LENGTH = 600
LAGS = 10


def lagged(values, told):
    rows = np.arange(LAGS, len(values) - LAGS)
    return np.stack([told[t - LAGS : t] for t in rows]), values[rows]


def make_series(rng):
    """A noisy oscillation with memory; synthetic on purpose."""
    noise = rng.normal(0, 0.4, LENGTH)
    for t in range(1, LENGTH):
        noise[t] += 0.6 * noise[t - 1]
    return np.sin(np.arange(LENGTH) / 7) + noise


class Comparison:
    def run(self):
        values = make_series(np.random.default_rng(lab.seed))
        x, y = lagged(values, values)
        a, b, ya, yb = train_test_split(x, y, test_size=0.3, shuffle=True, random_state=lab.seed)
        lab.result("mse", np.mean((b[:, -1] - yb) ** 2), condition="baseline", dataset="wave")
        nearest = ((b[:, None] - a[None]) ** 2).sum(axis=2).argsort(axis=1)[:, :3]
        lab.result("mse", np.mean((ya[nearest].mean(axis=1) - yb) ** 2),
            condition="method", dataset="wave")


lab.seed_everything()
Comparison().run()
