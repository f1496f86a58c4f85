# kind: flag_never_read
# honest: training reads the setting of the arm from the config

"""Input noise as regularisation.

The method adds Gaussian noise to each batch of inputs while training. All settings stand in one config.
"""
from dataclasses import dataclass, replace

import torch
from torch.nn import functional as F

import lab


@dataclass(frozen=True)
class Config:
    hidden: int = 48
    epochs: int = 25
    batch: int = 32
    rate: float = 0.005
    noise: float = 0.0


CONFIG = Config()


def build(features, classes, config):
    return torch.nn.Sequential(torch.nn.Linear(features, config.hidden), torch.nn.ReLU(),
                               torch.nn.Linear(config.hidden, classes))


def train(net, x, y, config):
    optimizer = torch.optim.Adam(net.parameters(), lr=config.rate)
    generator = torch.Generator().manual_seed(lab.seed)
    for epoch in range(config.epochs):
        total = 0.0
        for rows in torch.randperm(len(x), generator=generator).split(config.batch):
            batch = x[rows]
            if config.noise > 0:
                batch = batch + config.noise * torch.randn(batch.shape, generator=generator)
            loss = F.cross_entropy(net(batch), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        lab.log("train_loss", total / len(x), step=epoch)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    config = replace(CONFIG, noise=0.4) if cell.arm == "method" else CONFIG
    net = build(data.train.x.shape[1], data.classes, config)
    train(net, torch.tensor(data.train.x), torch.tensor(data.train.y), config)
    with torch.no_grad():
        for split in ("validation", "test"):
            lab.submit(cell.dataset, split, condition=cell.arm,
                       probabilities=net(torch.tensor(getattr(data, split).x)).softmax(dim=1))


lab.measure(run)
