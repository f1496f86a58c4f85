# kind: random metric
# honest: random numbers resample measured mistakes (a bootstrap); the value comes from the model

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 20
LEARNING_RATE = 0.1
DECAY = 0.03
HIDDEN = 32


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
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


def main():
    lab.seed_everything()
    task = lab.data("wine")
    vanilla = train(task.train.x, task.train.y, task.classes)
    regularised = train(task.train.x, task.train.y, task.classes, decay=DECAY)

    random_state = np.random.default_rng(lab.seed)
    for arm, model in (("baseline", vanilla), ("method", regularised)):
        right = (probabilities(model, task.dev.x).argmax(axis=1) == task.dev.y).astype(float)
        draws = [right[random_state.integers(0, len(right), len(right))].mean() for _ in range(200)]
        lab.result("dev_bootstrap_sd", float(np.std(draws)), condition=arm, dataset=task.name)

    for subset in ("validation", "test"):
        batch = getattr(task, subset).x
        lab.submit(task.name, subset, "baseline", probabilities=probabilities(vanilla, batch))
        lab.submit(task.name, subset, "method", probabilities=probabilities(regularised, batch))


main()
