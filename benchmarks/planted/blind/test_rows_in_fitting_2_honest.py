# kind: test rows in fitting
# honest: the rows are put together for one call of the model only; everything was fitted on train

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
centre = task.train.x.mean(axis=0)
directions = np.linalg.svd(task.train.x - centre, full_matrices=False)[2][:4].T
vanilla = learn(task.train.x, task.train.y, task.classes)
method_model = learn((task.train.x - centre) @ directions, task.train.y, task.classes)
everything = np.concatenate([task.validation.x, task.test.x])
cut = len(task.validation.x)
both = {"baseline": predict(vanilla, everything), "method": predict(method_model, (everything - centre) @ directions)}
for arm, outcome in both.items():
    lab.submit(task.name, "validation", arm, probabilities=outcome[:cut])
    lab.submit(task.name, "test", arm, probabilities=outcome[cut:])
