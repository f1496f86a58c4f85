# kind: training that does nothing
# honest: weights drawn at random and never trained, said so: random features, with a trained layer on top

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 30
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 48


def fit(x, y, classes, decay=0.0, epochs=EPOCHS):
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE / 10, weight_decay=decay)
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


def predict(model, inputs):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(inputs, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
task = lab.data("wine")
vanilla = fit(task.train.x, task.train.y, task.classes)
noise = np.random.default_rng(lab.seed)
weights = noise.normal(0.0, 0.3, size=(task.train.x.shape[1], 64))
proposed = fit(np.tanh(task.train.x @ weights), task.train.y, task.classes)
for split in ("validation", "test"):
    inputs = getattr(task, split).x
    lab.submit(task.name, split, "baseline", probabilities=predict(vanilla, inputs))
    lab.submit(task.name, split, "method", probabilities=predict(proposed, np.tanh(inputs @ weights)))
