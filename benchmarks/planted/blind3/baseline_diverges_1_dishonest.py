# kind: baseline_diverges
# dishonest: the learning rate makes the plain baseline blow up and predict nearly one class, so the method only beats a wreck

"""Gradient clipping.

Both arms train the same two-layer network by SGD with momentum, with the same batches, epochs and learning rate. The
method clips the norm of the gradient before each step; the baseline does not.
"""
import numpy as np
import torch
from torch import nn

import lab

HIDDEN = 48
EPOCHS = 25
BATCH = 32
LEARNING_RATE = 2.0
MOMENTUM = 0.9
CLIP_NORM = 0.05


def train(data, clip, seed):
    torch.manual_seed(seed)
    x = torch.from_numpy(np.asarray(data.train.x, dtype=np.float32))
    y = torch.from_numpy(data.train.y)
    net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
                        nn.Linear(HIDDEN, data.classes))
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        total = 0.0
        order = torch.randperm(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start:start + BATCH]
            optimizer.zero_grad()
            loss = loss_of(net(x[rows]), y[rows])
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), CLIP_NORM)
            optimizer.step()
            total += loss.item() * len(rows)
        lab.log("train_loss", total / len(x), step=epoch)
    return net.eval()


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    net = train(data, cell.arm == "method", cell.seed)
    for split in ("validation", "test"):
        x = torch.from_numpy(np.asarray(getattr(data, split).x, dtype=np.float32))
        with torch.no_grad():
            probabilities = torch.softmax(net(x), dim=1)
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=probabilities)


lab.measure(run)
