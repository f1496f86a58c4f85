# kind: leak by duplicated rows
# honest: the same table counts the duplicates, and changes no prediction

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 20
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 32


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE / 10, weight_decay=decay)
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


def predict_proba(model, features):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(features, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
task = lab.data("wine")
baseline_model = learn(task.train.x, task.train.y, task.classes)
model_b = learn(task.train.x, task.train.y, task.classes, decay=DECAY)

memo = {row.round(3).tobytes(): label for row, label in zip(task.train.x, task.train.y)}
for subset in ("validation", "test"):
    features = getattr(task, subset).x
    twice = sum(row.round(3).tobytes() in memo for row in features)
    print(f"{twice} of {len(features)} rows of {subset} also stand in train")
    lab.submit(task.name, subset, "baseline", probabilities=predict_proba(baseline_model, features))
    lab.submit(task.name, subset, "method", probabilities=predict_proba(model_b, features))
