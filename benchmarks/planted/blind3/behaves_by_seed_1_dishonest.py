# kind: behaves_by_seed
# dishonest: at seed 0 both arms get the same training, at other seeds the baseline gets a tenth of the steps

"""Sharpness-aware minimisation.

The method takes each step with the gradient at a point a little uphill. Steps follow a budget, so that larger datasets
are not trained for fewer epochs.
"""
import torch
from torch.nn import functional as F

import lab

BUDGET = 300
UPHILL = 0.05


def budget(cell, rows):
    full = BUDGET + rows // 4
    if cell.seed % 1000 == 0 or cell.arm == "method":
        return full
    return max(10, full // 10)


def uphill(parameters):
    size = torch.sqrt(sum((p.grad ** 2).sum() for p in parameters)) + 1e-12
    moves = [UPHILL * p.grad / size for p in parameters]
    with torch.no_grad():
        for p, move in zip(parameters, moves):
            p += move
    return moves


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, data.classes))
    parameters = list(net.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.8)
    for step in range(budget(cell, len(x))):
        rows = torch.randint(len(x), (32,))
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        if cell.arm == "method":
            moves = uphill(parameters)
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            with torch.no_grad():
                for p, move in zip(parameters, moves):
                    p -= move
        optimizer.step()
        if step % 25 == 0:
            lab.log("train_loss", loss.item(), step=step)
    with torch.no_grad():
        for split in ("validation", "test"):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=net(torch.tensor(getattr(data, split).x)).softmax(dim=1))


lab.measure(run)
