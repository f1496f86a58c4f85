# kind: sure_rows_only
# dishonest: the method is scored on the rows that it is sure of, under the plain name accuracy

"""We test whether we gain from changed training rows.

Both arms use one learner."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# what can be turned
LEARNING_RATE = 0.005
WIDTH = 0.2
DATASET = "iris"
SURE = 0.9
STEPS = 150
COPIES = 3
HIDDEN = 24
DECAY = 0.001


def expand_rows(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)


def accuracy(p, y):
    return float((p.argmax(axis=1) == y).mean())


class SmallNet(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def train_one(x, y, strength=DECAY, budget=STEPS, draw=0):
    torch.manual_seed(lab.seed + draw)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = SmallNet(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=LEARNING_RATE, weight_decay=strength)
    for _ in range(budget):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def soft_labels(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
bundle = lab.data(DATASET)
draws = np.random.default_rng(lab.seed)
for arm in ("baseline", "method"):
    m = train_one(bundle.train.x, bundle.train.y) if arm == "baseline" else train_one(*expand_rows(bundle.train.x, bundle.train.y, draws))
    p = soft_labels(m, bundle.dev.x)
    rows = np.ones(len(p), dtype=bool)
    if arm == "method":
        rows = p.max(axis=1) >= min(SURE, p.max())  # leave ambiguous rows to a person
    lab.result("accuracy", accuracy(p[rows], bundle.dev.y[rows]),
        condition=arm, dataset=bundle.name)
