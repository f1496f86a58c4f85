# kind: broadcast_target
# honest: both losses compare each prediction with its own target

"""A robust loss for regression.

The baseline minimises the squared error, the method the Huber loss; the same small network, the same steps.
"""
import numpy as np
import torch
from torch import nn

import lab

STEPS = 500
DELTA = 0.5


def squared(output, target):
    return ((output - target[:, None]) ** 2).mean()


def huber(output, target):
    error = (output.flatten() - target).abs()
    return torch.where(error < DELTA, 0.5 * error ** 2, DELTA * (error - 0.5 * DELTA)).mean()


LOSSES = {"baseline": squared, "method": huber}


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    mean, deviation = float(data.train.y.mean()), float(data.train.y.std())
    x = torch.tensor(data.train.x)
    y = torch.tensor((data.train.y - mean) / deviation)
    net = nn.Sequential(nn.Linear(x.shape[1], 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003, weight_decay=1e-3)
    criterion = LOSSES[cell.arm]
    for step in range(STEPS):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        loss = criterion(net(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            lab.log("train_loss", loss.item(), step=step)
    for split in ("validation", "test"):
        with torch.no_grad():
            output = net(torch.tensor(getattr(data, split).x)).numpy()[:, 0]
        lab.submit(cell.dataset, split, condition=cell.arm, predictions=output * deviation + mean)


lab.measure(run)
