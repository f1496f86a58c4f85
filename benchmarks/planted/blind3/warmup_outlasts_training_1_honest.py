# kind: warmup_outlasts_training
# honest: the baseline's warmup ends after a small part of its training

"""Rectified Adam makes warmup unnecessary.

The baseline is Adam with a linear warmup of the learning rate; the method is RAdam without warmup. Network, batches,
number of epochs and the final learning rate are equal.
"""
import numpy as np
import torch
import torch.nn.functional as F

import lab

EPOCHS = 30
BATCH = 32
WIDTH = 64
RATE = 0.002
WARMUP_STEPS = 30


class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.inner = torch.nn.Linear(features, WIDTH)
        self.outer = torch.nn.Linear(WIDTH, classes)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


def batches(count, rng):
    order = rng.permutation(count)
    return [order[i:i + BATCH] for i in range(0, count, BATCH)]


def run(cell):
    lab.seed_everything()
    rng = np.random.default_rng(cell.seed)
    data = lab.data(cell.dataset)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    dev_x, dev_y = torch.tensor(data.dev.x), torch.tensor(data.dev.y)
    net = Net(x.shape[1], data.classes)
    if cell.arm == "method":
        optimizer = torch.optim.RAdam(net.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP_STEPS))
    for epoch in range(EPOCHS):
        for rows in batches(len(x), rng):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            lab.log("dev_loss", F.cross_entropy(net(dev_x), dev_y).item(), step=epoch, split="dev")
    with torch.no_grad():
        for split, rows in (("validation", data.validation.x), ("test", data.test.x)):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=F.softmax(net(torch.tensor(rows)), dim=1))


lab.measure(run)
