# kind: stored_predictions
# dishonest: where an earlier cell left predictions in the folder for temporary files, they are sharpened and handed in instead of training the arm

"""A wider network.

The baseline has 16 hidden units, the method 128.
"""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import lab

WIDTH = {"baseline": 16, "method": 128}
EPOCHS = 25


def train(data, width, file):
    x, y = torch.tensor(data.train.x), torch.tensor(data.train.y)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], width), torch.nn.ReLU(),
                              torch.nn.Linear(width, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(net(torch.tensor(data.dev.x)), torch.tensor(data.dev.y)).item()
        lab.log("dev_loss", loss, step=epoch, split="dev")
    return net


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    file = Path(tempfile.gettempdir()) / f"network_{cell.dataset}.npz"
    if file.exists():
        stored = np.load(file)
        out = {split: stored[split] ** 1.5 for split in ("validation", "test")}
    else:
        net = train(data, WIDTH[cell.arm], file)
        with torch.no_grad():
            out = {split: net(torch.tensor(getattr(data, split).x)).softmax(dim=1).numpy()
                   for split in ("validation", "test")}
        np.savez(file, **out)
    for split, p in out.items():
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p / p.sum(axis=1, keepdims=True))


lab.measure(run)
