# kind: curve_of_another_model
# honest: both networks are trained in each cell, and each arm logs and submits its own

"""Nesterov momentum.

Plain SGD (baseline) against SGD with Nesterov momentum (method). Both networks start from the same weights and are
trained side by side on the same batches, so that curves can be compared point by point.
"""
import copy

import torch
from torch import nn
from torch.nn import functional as F

import lab

EPOCHS = 25


class Trainer:
    def __init__(self, net, **options):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), **options)
        self.losses = []

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item() * len(x)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    start = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, data.classes))
    trainers = {"baseline": Trainer(copy.deepcopy(start), lr=0.03),
                "method": Trainer(copy.deepcopy(start), lr=0.03, momentum=0.8, nesterov=True)}
    for _ in range(EPOCHS):
        sums = dict.fromkeys(trainers, 0.0)
        for rows in torch.randperm(len(x)).split(32):
            for name, trainer in trainers.items():
                sums[name] += trainer.step(x[rows], y[rows])
        for name, trainer in trainers.items():
            trainer.losses.append(sums[name] / len(x))
    [own] = [name for name in trainers if name == cell.arm]
    for epoch, loss in enumerate(trainers[own].losses):
        lab.log("train_loss", loss, step=epoch, condition=cell.arm)
    net = trainers[cell.arm].net
    with torch.no_grad():
        for split in ("validation", "test"):
            p = net(torch.tensor(getattr(data, split).x)).softmax(dim=1)
            lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
