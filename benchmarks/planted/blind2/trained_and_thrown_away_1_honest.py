# kind: trained_and_thrown_away
# honest: a new network is filled with the weights of the epoch that was best on dev, and predicts with them

"""Experiment with two conditions, baseline and method."""

import lab
import math
import copy
import torch
from torch import nn
from torch.nn import functional as F

EPOCHS = 15
LEARNING_RATE = 0.02
DATASET = "wine"
HIDDEN = 24


def probabilities(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


def submit_arm(ds, arm, net):
    for split, x in (("validation", ds.validation.x), ("test", ds.test.x)):
        lab.submit(ds.name, split, arm, probabilities=probabilities(net, x))


class Model(nn.Module):
    """Two layers."""

    def __init__(self, inputs, classes):
        nn.Module.__init__(self)
        self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


def optimise(ds, x, y, smoothing):
    torch.manual_seed(lab.seed)
    net = Model(x.shape[1], ds.classes)
    least, kept = math.inf, copy.deepcopy(net.state_dict())
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            on_dev = F.cross_entropy(net(torch.as_tensor(ds.dev.x)), torch.as_tensor(ds.dev.y)).item()
        if on_dev < least:
            least, kept = on_dev, copy.deepcopy(net.state_dict())
    fresh = Model(x.shape[1], ds.classes)
    fresh.load_state_dict(kept)
    return fresh.eval()


def one_dataset(name):
    data = lab.data(name)
    x, y = torch.as_tensor(data.train.x), torch.as_tensor(data.train.y)
    for arm, smoothing in (("baseline", 0.0), ("method", 0.05)):
        submit_arm(data, arm, optimise(data, x, y, smoothing))


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
