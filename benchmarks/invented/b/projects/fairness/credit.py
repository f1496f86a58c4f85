import numpy as np


def applicants(n, share_b, shift, rng):
    """Synthetic credit data: group B has noisier and lower measured income; the true label is known."""
    group = (rng.random(n) < share_b).astype(int)
    merit = rng.normal(size=n)
    label = (merit + rng.normal(0, 0.5, n) > 0).astype(int)
    income = merit - shift * group + rng.normal(0, 0.4 + 0.3 * group, n)
    other = 0.5 * merit[:, None] + rng.normal(0, 1, (n, 3))
    return np.column_stack([income, other]), group, label
