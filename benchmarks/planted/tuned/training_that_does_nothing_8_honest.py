# kind: training that does nothing
# honest: drawn anew

"""A small network with and without dropout."""

import lab
import numpy as np
import torch
from torch import nn

EPOCHS = 105
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
data = lab.data("iris")
x = torch.tensor(data.train.x, dtype=torch.float32)
y = torch.tensor(data.train.y)
for variant, dropout in (("baseline", 0.0), ("method", 0.3)):
    model = Net(x.shape[1], data.classes, dropout)
    epochs = EPOCHS
    train(model, x, y, epochs)
    for layer in (model.head, model.body[0]):
        layer.eval()
    held = predict(model, data.validation.x)
    lab.submit(data.name, "validation", variant, probabilities=held)
    lab.submit(data.name, "test", variant, probabilities=predict(model, data.test.x))
