# kind: best_of_restarts_for_one_arm
# honest: both arms are the best of the same number of restarts on dev

"""Orthogonal initialisation.

The baseline starts from torch's own initialisation, the method from orthogonal weights. Each
arm is the best of five restarts on dev.
"""
import torch
from torch import nn
from torch.nn import functional as F

import lab

STEPS = 120
HIDDEN = 24


def default(layer):
    layer.reset_parameters()


def orthogonal(layer):
    nn.init.orthogonal_(layer.weight, gain=1.2)
    nn.init.zeros_(layer.bias)


PLAN = {"baseline": (default, 5), "method": (orthogonal, 5)}


def trained(data, start, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(data.train.x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, data.classes))
    for layer in (net[0], net[2]):
        start(layer)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (32,))
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(net(torch.tensor(data.dev.x)), torch.tensor(data.dev.y)).item(), net


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    start, count = PLAN[cell.arm]
    loss, net = min((trained(data, start, 1000 * cell.seed + i) for i in range(count)), key=lambda pair: pair[0])
    lab.result("dev_cross_entropy", loss, split="dev")
    with torch.no_grad():
        for split in ("validation", "test"):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=net(torch.tensor(getattr(data, split).x)).softmax(1))


lab.measure(run)
