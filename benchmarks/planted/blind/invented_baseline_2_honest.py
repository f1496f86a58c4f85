# kind: invented baseline
# honest: both arms come from one model because the method is a temperature fitted on dev

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 30
LEARNING_RATE = 0.05
DECAY = 0.001
HIDDEN = 48


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
dataset = lab.data("breast_cancer")
plain = train_model(dataset.train.x, dataset.train.y, dataset.classes)


def tempered(probabilities, temperature):
    powers = (probabilities + 1e-9) ** (1.0 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def dev_loss(temperature):
    own = tempered(probabilities(plain, dataset.dev.x), temperature)[np.arange(len(dataset.dev.y)), dataset.dev.y]
    return -np.log(own + 1e-12).mean()


chosen = min(np.geomspace(0.25, 4.0, 31), key=dev_loss)
for subset in ("validation", "test"):
    found = probabilities(plain, getattr(dataset, subset).x)
    lab.submit(dataset.name, subset, "baseline", probabilities=found)
    lab.submit(dataset.name, subset, "method", probabilities=tempered(found, chosen))
