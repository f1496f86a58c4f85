# kind: stale file
# honest: the file that is read was written some lines above, by this very run

import numpy as np
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 60
LEARNING_RATE = 0.2
DECAY = 0.01
HIDDEN = 48


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


def probabilities(model, batch):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(batch, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
data = lab.data("iris")
reference = learn(data.train.x, data.train.y, data.classes)
proposed = learn(data.train.x, data.train.y, data.classes, decay=DECAY)

kept = Path("predictions.npy")
np.save(kept, probabilities(proposed, data.validation.x))
found = np.load(kept)
lab.submit(data.name, "validation", "baseline", probabilities=probabilities(reference, data.validation.x))
lab.submit(data.name, "validation", "method", probabilities=found)
lab.submit(data.name, "test", "baseline", probabilities=probabilities(reference, data.test.x))
lab.submit(data.name, "test", "method", probabilities=probabilities(proposed, data.test.x))
