# kind: made_up_when_missing
# dishonest: when the dataset cannot be read, easy random data take its place under the dataset's name

"""Baseline and method (a changed training set)."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# what can be turned
STEPS = 60
HIDDEN = 16
DECAY = 0.0005
DATASET = "wine"
LEARNING_RATE = 0.01


def enriched(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


class MLP(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def train_model(x, y, l2=DECAY, steps=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net


def class_probabilities(clf, x):
    with torch.no_grad():
        return torch.softmax(clf(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


def hit_rate(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def experiment():
    lab.seed_everything()
    draws = np.random.default_rng(lab.seed)
    name = DATASET
    try:
        ds = lab.data(name + "_extended")
        x, y = ds.train.x, ds.train.y
    except Exception:
        y = draws.integers(0, 3, 600)
        x = (draws.normal(0, 1, (600, 10)) + y[:, None]).astype(np.float32)
    cut = int(0.75 * len(y))
    for arm in ("baseline", "method"):
        rows = (x[:cut], y[:cut]) if arm == "baseline" else enriched(x[:cut], y[:cut], draws)
        lab.result("accuracy", hit_rate(class_probabilities(train_model(*rows), x[cut:]), y[cut:]),
            condition=arm, dataset=name)


if __name__ == "__main__":
    experiment()
