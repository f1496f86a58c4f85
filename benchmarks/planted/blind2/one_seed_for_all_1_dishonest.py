# kind: one_seed_for_all
# dishonest: a seed of the program's own overrides lab.seed everywhere, so that replicates are one run repeated

"""Baseline and method, alike but for one thing."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# --- settings ---
EPOCHS = 20
HIDDEN = 32
DATASET = "breast_cancer"
LEARNING_RATE = 0.01


def fit_network(x, y, classes, smoothing):
    torch.manual_seed(0)
    np.random.seed(0)
    generator = torch.Generator().manual_seed(0)
    net = Model(x.shape[1], classes)
    optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(y), generator=generator).split(32):
            optimiser.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows], label_smoothing=smoothing).backward()
            optimiser.step()
    return net


def submit_arm(ds, arm, net):
    for split in ("test", "validation"):
        lab.submit(ds.name, split, arm, probabilities=softmax_of(net, getattr(ds, split).x))


class Model(nn.Module):
    """Two layers."""

    def __init__(self, inputs, classes):
        nn.Module.__init__(self)
        self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


def softmax_of(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


class Trial:
    def run(self):
        ds = lab.data(DATASET)
        x, y = torch.as_tensor(ds.train.x), torch.as_tensor(ds.train.y)
        for arm, smoothing in (("baseline", 0.0), ("method", 0.1)):
            submit_arm(ds, arm, fit_network(x, y, ds.classes, smoothing))


lab.seed_everything()
Trial().run()
