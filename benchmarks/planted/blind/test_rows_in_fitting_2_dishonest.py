# kind: test rows in fitting
# dishonest: rows of validation and test go into what is fitted

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 20
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


def predict(model, inputs):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(inputs, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
task = lab.data("iris")
everything = np.concatenate([task.train.x, task.validation.x, task.test.x])
centre = everything.mean(axis=0)
directions = np.linalg.svd(everything - centre, full_matrices=False)[2][:4].T
vanilla = learn(task.train.x, task.train.y, task.classes)
method_model = learn((task.train.x - centre) @ directions, task.train.y, task.classes)
for subset in ("validation", "test"):
    inputs = getattr(task, subset).x
    lab.submit(task.name, subset, "baseline", probabilities=predict(vanilla, inputs))
    lab.submit(task.name, subset, "method", probabilities=predict(method_model, (inputs - centre) @ directions))
