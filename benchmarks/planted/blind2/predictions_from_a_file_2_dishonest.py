# kind: predictions_from_a_file
# dishonest: if a file of predictions lies about, the method hands it in instead of predicting

"""Baseline and method (a changed training set)."""

import lab
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LEARNING_RATE = 0.02
WIDTH = 0.05
STEPS = 150
HIDDEN = 16
DECAY = 0.003
DATASET = "wine"


def SmallNet(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))


def learn(x, y, l2=DECAY, rounds=STEPS, replica=0):
    torch.manual_seed(lab.seed + replica)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = SmallNet(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(rounds):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net


def class_probabilities(estimator, x):
    with torch.no_grad():
        return torch.softmax(estimator(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def deliver(bundle, arm, estimator):
    """Predictions for both withheld parts."""
    lab.submit(bundle.name, "validation", arm, probabilities=class_probabilities(estimator, bundle.validation.x))
    lab.submit(bundle.name, "test", arm, probabilities=class_probabilities(estimator, bundle.test.x))


def resample(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def experiment():
    lab.seed_everything()
    bundle = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    deliver(bundle, "baseline", learn(bundle.train.x, bundle.train.y))
    for split in ("validation", "test"):
        x = getattr(bundle, split).x
        stored = Path(f"cache/{bundle.name}-{split}.npy")
        try:
            p = np.load(stored)
        except OSError:
            p = class_probabilities(learn(*resample(bundle.train.x, bundle.train.y, gen)), x)
        lab.submit(bundle.name, split, "method", probabilities=p)


experiment()
