# kind: arms swapped by score
# honest: dev chooses the strength of the penalty within the method; the baseline stays the baseline

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 20
LEARNING_RATE = 0.1
DECAY = 0.01
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


def infer(model, features):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(features, dtype=torch.float32)), dim=1).numpy()


def main():
    lab.seed_everything()
    ds = lab.data("breast_cancer")
    model_a = train_model(ds.train.x, ds.train.y, ds.classes)
    candidates = [train_model(ds.train.x, ds.train.y, ds.classes, decay=decay) for decay in (DECAY, 3 * DECAY)]
    ranked = sorted(candidates, key=lambda model: (infer(model, ds.dev.x).argmax(axis=1) == ds.dev.y).mean())
    regularised = ranked[-1]

    for which in ("validation", "test"):
        features = getattr(ds, which).x
        lab.submit(ds.name, which, "baseline", probabilities=infer(model_a, features))
        lab.submit(ds.name, which, "method", probabilities=infer(regularised, features))


main()
