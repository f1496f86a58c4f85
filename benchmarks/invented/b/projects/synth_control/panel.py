import numpy as np
from scipy.optimize import nnls


def make_panel(rng, donors, periods, treat_at, effect):
    """Simulated panel: two latent factors, unit loadings, noise; unit 0 is treated."""
    factors = np.cumsum(rng.normal(0, 1, (periods, 2)), axis=0)
    loads = rng.uniform(0.2, 1.0, (2, donors + 1))
    loads[:, 0] = loads[:, 1:].mean(1) + rng.normal(0, 0.1, 2)
    y = 20 + factors @ loads + rng.normal(0, 0.5, (periods, donors + 1))
    y[treat_at:, 0] += effect
    return y


def synthetic_control(y, unit, treat_at):
    """Weights on the other units (non-negative, sum one) that fit the pre-period."""
    others = [j for j in range(y.shape[1]) if j != unit]
    big = 1e3
    a = np.vstack([y[:treat_at, others], big * np.ones(len(others))])
    b = np.append(y[:treat_at, unit], big)
    w, _ = nnls(a, b)
    gap = y[:, unit] - y[:, others] @ w
    return float(gap[treat_at:].mean()), float(np.sqrt((gap[:treat_at] ** 2).mean())), float((gap[treat_at:] ** 2).mean() ** 0.5)


def diff_in_diff(y, treat_at):
    pre, post = y[:treat_at], y[treat_at:]
    return float((post[:, 0].mean() - pre[:, 0].mean()) - (post[:, 1:].mean() - pre[:, 1:].mean()))
