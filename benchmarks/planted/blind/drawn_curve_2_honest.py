# kind: drawn curve
# honest: the formula is a schedule, logged under its name; the loss of every step was measured

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
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    for step in range(1, 8):
        budget = int(np.ceil(EPOCHS * (1.0 - np.exp(-0.5 * step))))
        np.random.seed(lab.seed)
        model = optimise(data.train.x, data.train.y, data.classes, decay=decay, epochs=budget)
        own = forward_all(model, data.dev.x)[np.arange(len(data.dev.y)), data.dev.y]
        lab.log("budget", budget, step=step, condition=arm, dataset=data.name, split="train")
        lab.log("loss", float(-np.log(own + 1e-12).mean()), step=step, condition=arm, dataset=data.name, split="dev")
    for subset in ("validation", "test"):
        lab.submit(data.name, subset, arm, probabilities=forward_all(model, getattr(data, subset).x))
