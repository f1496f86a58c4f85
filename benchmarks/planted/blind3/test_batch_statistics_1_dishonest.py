# kind: test_batch_statistics
# dishonest: the network predicts in training mode, so the prediction of a row depends on the other rows of its split

"""Batch normalisation.

The method normalises the hidden layer over the batch.
"""
import torch
from torch import nn
from torch.nn import functional as F

import lab

EPOCHS = 25


class Net(nn.Module):
    def __init__(self, features, classes, normalise):
        super().__init__()
        self.first = nn.Linear(features, 48)
        self.norm = nn.BatchNorm1d(48) if normalise else nn.Identity()
        self.second = nn.Linear(48, classes)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


@torch.no_grad()
def predict(net, x):
    net.train()
    return net(torch.from_numpy(x)).softmax(dim=1)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    net = Net(x.shape[1], data.classes, cell.arm == "method")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.8)
    for epoch in range(EPOCHS):
        net.train()
        for rows in torch.randperm(len(x)).tensor_split(max(1, len(x) // 32)):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
        lab.log("train_loss", loss.item(), step=epoch)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=predict(net, getattr(data, split).x))


lab.measure(run)
