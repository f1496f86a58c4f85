import numpy as np


def counts(y, p):
    return np.array([((p == 1) & (y == 1)).sum(), ((p == 1) & (y == 0)).sum(), ((p == 0) & (y == 1)).sum()])


def prf(tp, fp, fn):
    p = tp / (tp + fp) if tp + fp else 0.0
    r = tp / (tp + fn) if tp + fn else 0.0
    return float(p), float(r), float(2 * p * r / (p + r)) if p + r else 0.0


def best_threshold(y, prob):
    grid = np.linspace(0.05, 0.95, 19)
    return max(grid, key=lambda t: prf(*counts(y, (prob >= t).astype(int)))[2])
