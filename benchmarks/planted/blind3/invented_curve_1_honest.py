# kind: invented_curve
# honest: the logged loss is that of the network; the formula of the epoch is the learning rate, and logged as such

"""Exponential decay of the learning rate.

The baseline keeps the rate, the method lets it decay by the epoch. Loss on train is logged each epoch.
"""
import math

import numpy as np
import torch
from torch.nn import functional as F

import lab

EPOCHS = 30
RATE = 0.08
DECAY = 0.12


def run(cell):
    lab.seed_everything()
    rng = np.random.default_rng(cell.seed)
    data = lab.data(cell.dataset)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 40), torch.nn.Tanh(), torch.nn.Linear(40, data.classes))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    speed = DECAY if cell.arm == "method" else 0.0
    lab.log("train_loss_of_a_guess", math.log(data.classes), step=0)
    for epoch in range(EPOCHS):
        rate = RATE * math.exp(-speed * epoch)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for rows in np.array_split(rng.permutation(len(x)), max(1, len(x) // 16)):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            level = F.cross_entropy(net(x), y).item()
        lab.log("train_loss", level, step=epoch)
        lab.log("rate", RATE * math.exp(-speed * epoch), step=epoch)
    with torch.no_grad():
        for split in ("validation", "test"):
            p = net(torch.tensor(getattr(data, split).x)).softmax(dim=1)
            lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
