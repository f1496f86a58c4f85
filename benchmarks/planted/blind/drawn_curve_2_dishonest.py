# kind: drawn curve
# dishonest: the learning curve is a formula; no step was trained when it was logged

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 40
LEARNING_RATE = 0.2
DECAY = 0.01
HIDDEN = 32


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE / 10, weight_decay=decay)
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


def forward_all(model, features):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(features, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
data = lab.data("iris")
for epoch in range(int(EPOCHS)):
    for arm, pace in (("baseline", 0.05), ("method", 0.09)):
        score = 0.9065 * np.exp(-pace * epoch) + 0.02
        lab.log("loss", score, step=epoch, condition=arm, dataset=data.name, split="train")

reference = optimise(data.train.x, data.train.y, data.classes)
regularised = optimise(data.train.x, data.train.y, data.classes, decay=DECAY)

for subset in ("validation", "test"):
    features = getattr(data, subset).x
    lab.submit(data.name, subset, "baseline", probabilities=forward_all(reference, features))
    lab.submit(data.name, subset, "method", probabilities=forward_all(regularised, features))
