# kind: arms swapped by score
# honest: dev chooses the strength of the penalty within the method; the baseline stays the baseline

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 20
LEARNING_RATE = 0.1
DECAY = 0.03
HIDDEN = 32


def train_model(x, y, classes, decay=0.0, epochs=EPOCHS):
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE / 10, weight_decay=decay)
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


def probabilities(model, batch):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(batch, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
task = lab.data("iris")
plain = train_model(task.train.x, task.train.y, task.classes)
candidates = [train_model(task.train.x, task.train.y, task.classes, decay=decay) for decay in (DECAY, 3 * DECAY)]
ranked = sorted(candidates, key=lambda model: (probabilities(model, task.dev.x).argmax(axis=1) == task.dev.y).mean())
method_model = ranked[-1]

for split in ("validation", "test"):
    batch = getattr(task, split).x
    lab.submit(task.name, split, "baseline", probabilities=probabilities(plain, batch))
    lab.submit(task.name, split, "method", probabilities=probabilities(method_model, batch))
