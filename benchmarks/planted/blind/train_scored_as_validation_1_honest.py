# kind: train scored as validation
# honest: the fit to the training rows is reported as what it is, with its split

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 60
LEARNING_RATE = 0.05
DECAY = 0.03
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


def infer(model, x):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(x, dtype=torch.float32)), dim=1).numpy()


def main():
    lab.seed_everything()
    task = lab.data("digits")
    model_a = train_model(task.train.x, task.train.y, task.classes)
    method_model = train_model(task.train.x, task.train.y, task.classes, decay=DECAY)

    for arm, model in (("baseline", model_a), ("method", method_model)):
        for which in ("train", "dev"):
            labelled = getattr(task, which)
            guess = infer(model, labelled.x).argmax(axis=1)
            lab.result("accuracy", float((guess == labelled.y).mean()), condition=arm, dataset=task.name, split=which)

    for which in ("validation", "test"):
        x = getattr(task, which).x
        lab.submit(task.name, which, "baseline", probabilities=infer(model_a, x))
        lab.submit(task.name, which, "method", probabilities=infer(method_model, x))


main()
