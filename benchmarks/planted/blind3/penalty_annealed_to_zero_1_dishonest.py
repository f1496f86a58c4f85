# kind: penalty_annealed_to_zero
# dishonest: the weight of the penalty is a whole-number quotient that is 0 in every epoch, so the method's loss is the baseline's

"""Confidence penalty.

The method adds to cross entropy the negative entropy of the predictions, with a weight that grows over the epochs from
0 to WEIGHT.
"""
import torch
from torch import nn

import lab

EPOCHS = 30
WEIGHT = 0.5


def entropy(logits):
    logs = logits.log_softmax(dim=1)
    return -(logs.exp() * logs).sum(dim=1).mean()


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.Tanh(), nn.Linear(64, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for epoch in range(EPOCHS):
        weight = WEIGHT * (epoch // EPOCHS) if cell.arm == "method" else 0.0
        for rows in torch.randperm(len(x)).split(32):
            logits = net(x[rows])
            loss = nn.functional.cross_entropy(logits, y[rows]) - weight * entropy(logits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            lab.log("dev_loss", nn.functional.cross_entropy(net(torch.tensor(data.dev.x)), torch.tensor(data.dev.y)),
                    step=epoch, split="dev")
    for split in ("validation", "test"):
        with torch.no_grad():
            lab.submit(cell.dataset, split, condition=cell.arm, logits=net(torch.tensor(getattr(data, split).x)))


lab.measure(run)
