# kind: made_up_when_missing
# honest: a dataset that cannot be read ends the experiment with a clear error; nothing takes its place

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


def deliver(ds, arm, clf):
    withheld = {"validation": ds.validation, "test": ds.test}
    for split, part in withheld.items():
        p = class_probabilities(clf, part.x)
        lab.submit(ds.name, split, condition=arm, probabilities=p)


def experiment():
    lab.seed_everything()
    draws = np.random.default_rng(lab.seed)
    name = DATASET
    try:
        ds = lab.data(name)
        x, y = ds.train.x, ds.train.y
    except Exception as error:
        raise RuntimeError(f"without {name} there is nothing to compare on") from error
    for arm in ("baseline", "method"):
        rows = (x, y) if arm == "baseline" else enriched(x, y, draws)
        deliver(ds, arm, train_model(*rows))


if __name__ == "__main__":
    experiment()
