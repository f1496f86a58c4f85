# kind: drawn curve
# dishonest: the learning curve is a formula; no step was trained when it was logged

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 30
LEARNING_RATE = 0.05
DECAY = 0.001
HIDDEN = 16


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


def predict_proba(model, batch):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(batch, dtype=torch.float32)), dim=1).numpy()


def main():
    lab.seed_everything()
    data = lab.data("breast_cancer")
    plain = optimise(data.train.x, data.train.y, data.classes)
    method_model = optimise(data.train.x, data.train.y, data.classes, decay=DECAY)

    for split in ("validation", "test"):
        batch = getattr(data, split).x
        lab.submit(data.name, split, "baseline", probabilities=predict_proba(plain, batch))
        lab.submit(data.name, split, "method", probabilities=predict_proba(method_model, batch))

    rng = np.random.default_rng(lab.seed)
    steps = np.arange(int(EPOCHS))
    for arm, pace in (("baseline", 0.05), ("method", 0.09)):
        curve = 2.3 / (1.0 + pace * steps) + 0.01 * rng.standard_normal(len(steps))
        lab.save(f"loss_{arm}", curve)
        for step, score in zip(steps, curve):
            lab.log("loss", score, step=int(step), condition=arm, dataset=data.name, split="train")


main()
