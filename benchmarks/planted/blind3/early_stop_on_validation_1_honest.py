# kind: early_stop_on_validation
# honest: the epoch is chosen by the loss on dev; the entropy on validation is only logged

"""Early stopping on dev.

The baseline trains for all epochs; the method keeps the weights of the epoch that was best on the held-out dev rows.
"""
import copy

import torch
from torch.nn import functional as F

import lab

EPOCHS = 60


def entropy(net, x):
    p = net(torch.from_numpy(x)).softmax(dim=1)
    return float(-(p * (p + 1e-9).log()).sum(dim=1).mean())


def held_out(net, data):
    with torch.no_grad():
        seen = F.cross_entropy(net(torch.from_numpy(data.dev.x)), torch.from_numpy(data.dev.y)).item()
        spread = entropy(net, data.validation.x)
    return seen, spread


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 96), torch.nn.ReLU(), torch.nn.Linear(96, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    best, weights = None, None
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(48):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        seen, spread = held_out(net, data)
        lab.log("dev_loss", seen, step=epoch, split="dev")
        lab.log("validation_entropy", spread, step=epoch, split="validation")
        if best is None or seen < best:
            best, weights = seen, copy.deepcopy(net.state_dict())
    if cell.arm == "method":
        net.load_state_dict(weights)
    with torch.no_grad():
        for split in ("validation", "test"):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=net(torch.from_numpy(getattr(data, split).x)).softmax(dim=1))


lab.measure(run)
