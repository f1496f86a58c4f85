# kind: harder_rows_for_the_baseline
# dishonest: the baseline predicts from inputs with noise added, the method from clean ones

"""Experiment: changed training rows.

Two arms, scored on validation and test."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# settings
STEPS = 80
LEARNING_RATE = 0.01
DATASET = "wine"
HIDDEN = 32
SIGMA = 0.8
DECAY = 0.001


def more_rows(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def MLP(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def train_model(x, y, strength=DECAY, budget=STEPS, replica=0):
    torch.manual_seed(lab.seed + replica)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=strength)
    for _ in range(budget):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net.eval()


def forecast(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def go():
    lab.seed_everything()
    ds = lab.data(DATASET)
    random_stream = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        m = train_model(ds.train.x, ds.train.y) if arm == "baseline" else train_model(*more_rows(ds.train.x, ds.train.y, random_stream))
        for split in ("validation", "test"):
            x = getattr(ds, split).x
            x = x if arm == "method" else x + random_stream.normal(0, SIGMA, x.shape)
            lab.submit(ds.name, split, arm, probabilities=forecast(m, x.astype(np.float32)))


go()
