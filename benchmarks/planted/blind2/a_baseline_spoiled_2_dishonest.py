# kind: a_baseline_spoiled
# dishonest: the baseline's predictions are flattened or partly redrawn after the fact, the method's are left alone

"""Baseline and method (another training set)."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BLUR = 0.6
HIDDEN = 24
DATASET = "digits"
STEPS = 80
COPIES = 2
WIDTH = 0.1
LEARNING_RATE = 0.02
DECAY = 0.003


class SmallNet(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def train_one(x, y, penalty=DECAY, rounds=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = SmallNet(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=penalty)
    for _ in range(rounds):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def probabilities_of(model, x):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


def expand_rows(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def run():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        model = train_one(loaded.train.x, loaded.train.y) if arm == "baseline" else train_one(*expand_rows(loaded.train.x, loaded.train.y, rng))
        for split in ("validation", "test"):
            p = probabilities_of(model, getattr(loaded, split).x)
            if arm == "baseline":
                p = (1 - BLUR) * p + BLUR / p.shape[1]
            lab.submit(loaded.name, split, arm, probabilities=p)


run()
