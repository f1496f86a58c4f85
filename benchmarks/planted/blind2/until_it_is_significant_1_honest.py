# kind: until_it_is_significant
# honest: a fixed number of sign flips gives one p-value, which is reported as it comes; arms are fitted once

"""We test whether we gain from changed training rows.

Both arms use one learner."""

import lab
import numpy as np
import torch
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


def submit_both(parts, arm, estimator):
    """Predictions for both withheld parts."""
    lab.submit(parts.name, "validation", arm, probabilities=forecast(estimator, parts.validation.x))
    lab.submit(parts.name, "test", arm, probabilities=forecast(estimator, parts.test.x))


def enriched(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def main():
    lab.seed_everything()
    parts = lab.data(DATASET)
    draws = np.random.default_rng(lab.seed)
    reference = make_model(parts.train.x, parts.train.y)
    ours = make_model(*enriched(parts.train.x, parts.train.y, draws))
    submit_both(parts, "baseline", reference)
    submit_both(parts, "method", ours)
    gain = [forecast(m, parts.dev.x).argmax(axis=1) == parts.dev.y for m in (ours, reference)]
    gain = gain[0].astype(float) - gain[1]
    extreme = 0
    for attempt in range(400):
        extreme += (gain * draws.choice([-1, 1], len(gain))).mean() >= gain.mean()
    p_value = (extreme + 1) / (400 + 1)
    lab.result("p_value", p_value, condition="method", dataset=parts.name, split="dev")


main()
