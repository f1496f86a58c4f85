# kind: arms_exchanged
# honest: the double negation comes out right: mixup is done in the arm method

"""Mixup.

The baseline trains on the rows as they are; the method on convex combinations of pairs of rows and their labels.
"""
import numpy as np
import torch

import lab

ALPHA = 0.4
EPOCHS = 30


def batches(x, targets, rng, plain):
    order = rng.permutation(len(x))
    for start in range(0, len(x), 32):
        rows = order[start:start + 32]
        if not plain:
            part = rng.beta(ALPHA, ALPHA)
            partner = rng.permutation(rows)
            yield (part * x[rows] + (1 - part) * x[partner], part * targets[rows] + (1 - part) * targets[partner])
        else:
            yield x[rows], targets[rows]


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    plain = cell.arm != "method"
    x, targets = torch.tensor(data.train.x), torch.eye(data.classes)[torch.tensor(data.train.y)]
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 50), torch.nn.ReLU(), torch.nn.Linear(50, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for epoch in range(EPOCHS):
        losses = []
        for some, wanted in batches(x, targets, rng, plain):
            optimizer.zero_grad()
            loss = -(wanted * net(some).log_softmax(dim=1)).sum(dim=1).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        lab.log("train_loss", np.mean(losses), step=epoch)
    with torch.no_grad():
        for split in ("validation", "test"):
            logits = net(torch.tensor(getattr(data, split).x))
            lab.submit(cell.dataset, split, condition=cell.arm, probabilities=logits.softmax(dim=1))


lab.measure(run)
