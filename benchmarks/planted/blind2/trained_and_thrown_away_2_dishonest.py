# kind: trained_and_thrown_away
# dishonest: what is trained is not what predicts: fresh weights (or the initial ones) are put in its place

"""Experiment with two conditions, baseline and method."""

import lab
import torch
from torch import nn
from torch.nn import functional as F

# settings
LEARNING_RATE = 0.01
EPOCHS = 12
HIDDEN = 24
DATASET = "wine"


def hand_over(ds, arm, net):
    for split in ("test", "validation"):
        lab.submit(ds.name, split, arm, probabilities=softly(net, getattr(ds, split).x))


class Model(nn.Module):
    """Two layers."""

    def __init__(self, inputs, classes):
        nn.Module.__init__(self)
        self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(F.silu(self.body(x)))


def train(x, y, classes, smoothing):
    torch.manual_seed(lab.seed)
    net = Model(x.shape[1], classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
        loss.backward()
        optimiser.step()
    for layer in net.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    return net


def softly(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


def go():
    lab.seed_everything()
    ds = lab.data(DATASET)
    x, y = torch.as_tensor(ds.train.x), torch.as_tensor(ds.train.y)
    for arm, smoothing in (("baseline", 0.0), ("method", 0.1)):
        hand_over(ds, arm, train(x, y, ds.classes, smoothing))


go()
