# kind: one_seed_for_all
# honest: weights and batches follow lab.seed; a fixed number only decides which rows a table of examples shows

"""Experiment with two conditions, baseline and method."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# settings
EPOCHS = 15
HIDDEN = 32
DATASET = "iris"
LEARNING_RATE = 0.01


class Model(nn.Module):
    """Two layers."""

    def __init__(self, inputs, classes):
        nn.Module.__init__(self)
        self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


def fit_network(x, y, classes, smoothing):
    torch.manual_seed(lab.seed)
    generator = torch.Generator().manual_seed(lab.seed + 1234)  # a second stream
    net = Model(x.shape[1], classes)
    optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(y), generator=generator).split(32):
            optimiser.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows], label_smoothing=smoothing).backward()
            optimiser.step()
    return net


def outputs(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


def submit_arm(ds, arm, net):
    for split, x in (("validation", ds.validation.x), ("test", ds.test.x)):
        lab.submit(ds.name, split, arm, probabilities=outputs(net, x))


class Trial:
    def run(self):
        parts = lab.data(DATASET)
        x, y = torch.as_tensor(parts.train.x), torch.as_tensor(parts.train.y)
        shown = np.random.default_rng(1234).permutation(len(parts.dev.y))[:8]  # the same examples in every replicate
        for arm, smoothing in (("baseline", 0.0), ("method", 0.05)):
            net = fit_network(x, y, parts.classes, smoothing)
            lab.save(f"examples_{arm}", outputs(net, parts.dev.x[shown]))
            submit_arm(parts, arm, net)


lab.seed_everything()
Trial().run()
