# kind: penalty_outweighs_fit
# honest: the penalty leaves the baseline most of its coefficients

"""Adaptive lasso.

The baseline is the lasso. The method first fits a ridge regression and rescales each column by the size of its
coefficient there (adaptive lasso), with the same penalty. Rows are bootstrapped by the seed.
"""
import numpy as np
from sklearn.linear_model import Lasso, Ridge

import lab

PENALTY = 2.0


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    rows = rng.integers(len(data.train.y), size=len(data.train.y))
    x, y = data.train.x[rows].astype(float), data.train.y[rows].astype(float)
    scale = np.ones(x.shape[1])
    if cell.arm == "method":
        scale = np.abs(Ridge(1.0).fit(x, y).coef_)
    model = Lasso(alpha=PENALTY, max_iter=20000).fit(x * scale, y)
    dev = model.predict(data.dev.x.astype(float) * scale)
    lab.result("dev_mse", np.mean((dev - data.dev.y) ** 2), split="dev")
    for split in ("validation", "test"):
        predictions = model.predict(getattr(data, split).x.astype(float) * scale)
        lab.submit(cell.dataset, split, condition=cell.arm, predictions=predictions)


lab.measure(run)
