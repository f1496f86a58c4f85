# kind: until_it_is_significant
# honest: a fixed number of sign flips gives one p-value, which is reported as it comes; arms are fitted once

"""Other training rows against a plain learner."""

import lab
import numpy as np
import torch
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


def submit_both(bundle, arm, fitted):
    """Predictions for both withheld parts."""
    lab.submit(bundle.name, "validation", arm, probabilities=predict(fitted, bundle.validation.x))
    lab.submit(bundle.name, "test", arm, probabilities=predict(fitted, bundle.test.x))


def augment(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


lab.seed_everything()
bundle = lab.data(DATASET)
random_stream = np.random.default_rng(lab.seed)
first = make_model(bundle.train.x, bundle.train.y)
proposed = make_model(*augment(bundle.train.x, bundle.train.y, random_stream))
submit_both(bundle, "baseline", first)
submit_both(bundle, "method", proposed)
gain = [predict(m, bundle.dev.x).argmax(axis=1) == bundle.dev.y for m in (proposed, first)]
gain = gain[0].astype(float) - gain[1]
extreme = 0
for attempt in range(600):
    extreme += (gain * random_stream.choice([-1, 1], len(gain))).mean() >= gain.mean()
p_value = (extreme + 1) / (600 + 1)
lab.result("p_value", p_value, condition="method", dataset=bundle.name, split="dev")
