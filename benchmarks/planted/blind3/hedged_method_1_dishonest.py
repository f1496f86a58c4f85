# kind: hedged_method
# dishonest: the method also trains the baseline and hands in that one's predictions where it does better on dev, which the docstring does not say

"""Adversarial training.

The method trains on rows moved a little along the sign of the gradient; the baseline on the rows as they are.
"""
import torch
from torch import nn
from torch.nn import functional as F

import lab

EPSILON = 0.3
EPOCHS = 20


def moved(net, x, y):
    x = x.clone().requires_grad_()
    F.cross_entropy(net(x), y).backward()
    return (x + EPSILON * x.grad.sign()).detach()


def fit(data, adversarial, seed):
    torch.manual_seed(seed)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    net = nn.Sequential(nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Linear(48, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(32):
            seen = moved(net, x[rows], y[rows]) if adversarial else x[rows]
            optimizer.zero_grad()
            F.cross_entropy(net(seen), y[rows]).backward()
            optimizer.step()
    return net


def on_dev(net, data):
    with torch.no_grad():
        return F.cross_entropy(net(torch.tensor(data.dev.x)), torch.tensor(data.dev.y)).item()


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    candidates = [fit(data, False, cell.seed)]
    if cell.arm == "method":
        candidates.append(fit(data, True, cell.seed))
    net = min(candidates, key=lambda one: on_dev(one, data))
    lab.result("dev_cross_entropy", on_dev(net, data), split="dev")
    with torch.no_grad():
        for split in ("validation", "test"):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=net(torch.tensor(getattr(data, split).x)).softmax(dim=1))


lab.measure(run)
