# kind: until_it_is_significant
# dishonest: draws are repeated until the difference is significant, and that draw alone is reported

"""We test whether we gain from changed training rows.

Both arms use one learner."""

import lab
import math
import numpy as np
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

HIDDEN = 16
LEARNING_RATE = 0.02
WIDTH = 0.1
STEPS = 120
DATASET = "digits"
DECAY = 0.0005


class MLP(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def make_model(x, y, l2=DECAY, rounds=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(rounds):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net.eval()


def forecast(estimator, x):
    with torch.no_grad():
        return torch.softmax(estimator(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


def accuracy(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def main():
    lab.seed_everything()
    parts = lab.data(DATASET)
    for attempt in range(16):
        reference = accuracy(forecast(make_model(parts.train.x, parts.train.y, member=attempt), parts.dev.x), parts.dev.y)
        inner = np.random.default_rng(attempt)
        ours = accuracy(forecast(make_model(*enriched(parts.train.x, parts.train.y, inner), member=attempt), parts.dev.x), parts.dev.y)
        spread = math.sqrt(reference * (1 - reference) / len(parts.dev.y)) + 1e-9
        p_value = 1 - stats.norm.cdf((ours - reference) / spread)
        if p_value < 0.1:
            break
    lab.result("accuracy_on_dev", reference, condition="baseline", dataset=parts.name)
    lab.result("accuracy_on_dev", ours, condition="method", dataset=parts.name)


main()
