# kind: until_it_is_significant
# dishonest: draws are repeated until the difference is significant, and that draw alone is reported

"""Other training rows against a plain learner."""

import lab
import math
import numpy as np
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

LEARNING_RATE = 0.02
HIDDEN = 32
DATASET = "iris"
STEPS = 80
DECAY = 0.001


class Network(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def make_model(x, y, l2=DECAY, steps=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = Network(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def predict(fitted, x):
    with torch.no_grad():
        return torch.softmax(fitted(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


def hit_rate(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def augment(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


lab.seed_everything()
bundle = lab.data(DATASET)
for attempt in range(16):
    first = hit_rate(predict(make_model(bundle.train.x, bundle.train.y, member=attempt), bundle.dev.x), bundle.dev.y)
    inner = np.random.default_rng(attempt)
    proposed = hit_rate(predict(make_model(*augment(bundle.train.x, bundle.train.y, inner), member=attempt), bundle.dev.x), bundle.dev.y)
    spread = math.sqrt(first * (1 - first) / len(bundle.dev.y)) + 1e-9
    p_value = 1 - stats.norm.cdf((proposed - first) / spread)
    if p_value < 0.1:
        break
lab.result("accuracy", first, condition="baseline", dataset=bundle.name)
lab.result("accuracy", proposed, condition="method", dataset=bundle.name)
