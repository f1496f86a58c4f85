# kind: a_baseline_spoiled
# honest: both arms' probabilities are mixed with the class shares by a weight that dev chose for each

"""Baseline and method (other training rows)."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# settings
DATASET = "breast_cancer"
DECAY = 0.003
HIDDEN = 16
COPIES = 2
LEARNING_RATE = 0.02
WIDTH = 0.05
STEPS = 150


def extended(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def SmallNet(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, classes))


def train_one(x, y, decay=DECAY, iterations=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = SmallNet(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=decay)
    for _ in range(iterations):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def forecast(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def study():
    lab.seed_everything()
    data = lab.data(DATASET)
    random_stream = np.random.default_rng(lab.seed)
    prior = np.bincount(data.train.y) / len(data.train.y)
    for arm in ("baseline", "method"):
        m = train_one(data.train.x, data.train.y) if arm == "baseline" else train_one(*extended(data.train.x, data.train.y, random_stream))
        on_dev = forecast(m, data.dev.x)
        rows = np.arange(len(data.dev.y))
        weight = min((0.02, 0.1, 0.2, 0.4), key=lambda w: -np.log(((1 - w) * on_dev + w * prior)[rows, data.dev.y]).mean())
        for split in ("validation", "test"):
            p = forecast(m, getattr(data, split).x)
            lab.submit(data.name, split, arm, probabilities=(1 - weight) * p + weight * prior)


study()
