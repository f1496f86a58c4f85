# kind: best seed only
# honest: both arms are ensembles over the same number of seeds, and all members count

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 60
LEARNING_RATE = 0.05
DECAY = 0.03
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


def infer(model, inputs):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(inputs, dtype=torch.float32)), dim=1).numpy()


def main():
    lab.seed_everything()
    dataset = lab.data("wine")
    members = {"baseline": [], "method": []}
    for member in range(3):
        for arm, decay in (("baseline", 0.0), ("method", DECAY)):
            np.random.seed(lab.seed * 100 + member)
            members[arm].append(learn(dataset.train.x, dataset.train.y, dataset.classes, decay=decay))
    for subset in ("validation", "test"):
        inputs = getattr(dataset, subset).x
        for arm, models in members.items():
            lab.submit(dataset.name, subset, arm, probabilities=np.mean([infer(model, inputs) for model in models], axis=0))


main()
