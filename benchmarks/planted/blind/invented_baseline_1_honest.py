# kind: invented baseline
# honest: both arms come from one model because the method is a temperature fitted on dev

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 40
LEARNING_RATE = 0.2
DECAY = 0.03
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


def predict_proba(model, rows):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(rows, dtype=torch.float32)), dim=1).numpy()


def main():
    lab.seed_everything()
    data = lab.data("digits")
    model_a = train_model(data.train.x, data.train.y, data.classes)


    def tempered(probabilities, temperature):
        powers = (probabilities + 1e-9) ** (1.0 / temperature)
        return powers / powers.sum(axis=1, keepdims=True)


    def dev_loss(temperature):
        own = tempered(predict_proba(model_a, data.dev.x), temperature)[np.arange(len(data.dev.y)), data.dev.y]
        return -np.log(own + 1e-12).mean()


    chosen = min(np.geomspace(0.25, 4.0, 31), key=dev_loss)
    for subset in ("validation", "test"):
        report = predict_proba(model_a, getattr(data, subset).x)
        lab.submit(data.name, subset, "baseline", probabilities=report)
        lab.submit(data.name, subset, "method", probabilities=tempered(report, chosen))


main()
