# kind: best_step_of_the_scored_rows
# dishonest: the number of steps is picked on the held-out rows, and the accuracy there at that number is the result

"""Comparing two ways to train, one of them with another training set."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 0.05
DATASET = "digits"
DECAY = 0.003
HIDDEN = 32
STEPS = 120
LEARNING_RATE = 0.02


def hit_rate(p, y):
    return float((p.argmax(axis=1) == y).mean())


class MLP(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def fit_model(x, y, decay=DECAY, budget=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=decay)
    for _ in range(budget):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def predict(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def expand_rows(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


lab.seed_everything()
parts = lab.data(DATASET)
draws = np.random.default_rng(lab.seed)
shuffled = np.random.default_rng(11).permutation(len(parts.train.y))  # one cut for all arms
kept_back, core = shuffled[: len(parts.train.y) // 3], shuffled[len(parts.train.y) // 3 :]
budgets = (10, 20, 40, 80, 160)
for arm in ("baseline", "method"):
    rows = (parts.train.x[core], parts.train.y[core])
    rows = rows if arm == "baseline" else expand_rows(*rows, draws)
    seen = {n: hit_rate(predict(fit_model(*rows, budget=n), parts.train.x[kept_back]), parts.train.y[kept_back]) for n in budgets}
    lab.result("dev_accuracy", max(seen.values()), condition=arm, dataset=parts.name)
