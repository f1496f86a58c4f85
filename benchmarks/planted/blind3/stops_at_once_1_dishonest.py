# kind: stops_at_once
# dishonest: the improvement that early stopping asks for is larger than an epoch brings, so both arms stop after the first epochs and compare untrained networks

"""Dropout.

Both arms train for up to 250 epochs with early stopping on dev (the best epoch's weights are restored). The method has
dropout in the hidden layer.
"""
import copy

import torch
from torch import nn

import lab

EPOCHS = 250
RATE = 0.004
TOLERANCE = 0.1
PATIENCE = 1
DROPOUT = 0.3


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    dev_x, dev_y = torch.from_numpy(data.dev.x), torch.from_numpy(data.dev.y)
    dropout = DROPOUT if cell.arm == "method" else 0.0
    net = nn.Sequential(nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Dropout(dropout), nn.Linear(48, data.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    criterion = nn.CrossEntropyLoss()
    best, kept, waited = float("inf"), copy.deepcopy(net.state_dict()), 0
    for epoch in range(EPOCHS):
        net.train()
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            loss = criterion(net(dev_x), dev_y).item()
        lab.log("dev_loss", loss, step=epoch, split="dev")
        if loss < best - TOLERANCE:
            best, kept, waited = loss, copy.deepcopy(net.state_dict()), 0
        else:
            waited += 1
            if waited > PATIENCE:
                break
    net.load_state_dict(kept)
    net.eval()
    for split in ("validation", "test"):
        with torch.no_grad():
            p = net(torch.from_numpy(getattr(data, split).x)).softmax(1)
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
