# kind: copied number
# dishonest: the baseline's result is a number from somebody's table; the baseline was never run

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import lab

EPOCHS = 60
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


def predict(model, batch):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor(batch, dtype=torch.float32)), dim=1).numpy()


# Table 2 of the original paper
PUBLISHED = {"svm": 0.3197, "forest": 0.2092}


lab.seed_everything()
corpus = lab.data("breast_cancer")
regularised = train(corpus.train.x, corpus.train.y, corpus.classes, decay=DECAY)
lab.result("accuracy", PUBLISHED["svm"], condition="baseline", dataset=corpus.name)
for part in ("validation", "test"):
    lab.submit(corpus.name, part, "method", probabilities=predict(regularised, getattr(corpus, part).x))
