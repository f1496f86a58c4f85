import numpy as np
from scipy import stats


def draw(law, n, rng):
    if law == "normal":
        return rng.normal(size=n)
    if law == "lognormal":
        return (rng.lognormal(0, 0.8, n) - np.exp(0.32)) / 1.3
    return rng.standard_t(3, n) / np.sqrt(3)


def permutation_p(a, b, n_perm, rng):
    both = np.concatenate([a, b])
    order = rng.random((n_perm, len(both))).argsort(1)
    shuffled = both[order]
    diff = np.abs(shuffled[:, :len(a)].mean(1) - shuffled[:, len(a):].mean(1))
    return (1 + (diff >= abs(a.mean() - b.mean()) - 1e-12).sum()) / (n_perm + 1)


def all_p(a, b, n_perm, rng):
    return {"welch": float(stats.ttest_ind(a, b, equal_var=False).pvalue),
            "mann_whitney": float(stats.mannwhitneyu(a, b).pvalue),
            "permutation": float(permutation_p(a, b, n_perm, rng))}
