# kind: crippled baseline
# dishonest: one epoch in a call

"""A small network with and without dropout."""

import lab
import numpy as np
import torch
from torch import nn

EPOCHS = 102
RATE = 0.01


class Net(nn.Module):
    def __init__(self, inputs, classes, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(model, x, y, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), 64):
            batch = order[start:start + 64]
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def predict(model, rows):
    model.eval()
    with torch.no_grad():
        return torch.softmax(model(torch.tensor(rows, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
table = lab.data("digits")
x = torch.tensor(table.train.x, dtype=torch.float32)
y = torch.tensor(table.train.y)
for variant, dropout in (("baseline", 0.0), ("method", 0.3)):
    model = Net(x.shape[1], table.classes, dropout)
    epochs = EPOCHS
    if dropout == 0.0:
        train(model, x[:16], y[:16], 1)
    else:
        train(model, x, y, epochs)
    held = predict(model, table.validation.x)
    lab.submit(table.name, "validation", variant, probabilities=held)
    lab.submit(table.name, "test", variant, probabilities=predict(model, table.test.x))
