"""Random changes of the training points."""
import numpy as np


def jitter(x, sigma, rng):
    return x + rng.normal(0, sigma, x.shape)


def mix(x, target, beta, rng):
    lam = rng.beta(beta, beta, (len(x), 1))
    other = rng.permutation(len(x))
    return lam * x + (1 - lam) * x[other], lam * target + (1 - lam) * target[other]
