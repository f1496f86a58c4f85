# kind: loss_of_a_copy
# dishonest: the dev curve is that of a copy made before training, so it never moves whatever the network learns

"""Weight decay.

A network trained by Adam; the method decays the weights (AdamW). The loss on dev is logged each epoch on a copy of the
network, so that evaluating never disturbs the state of what trains.
"""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lab

EPOCHS = 20
DECAY = 0.3


def loaders(data, seed):
    train = TensorDataset(torch.from_numpy(data.train.x), torch.from_numpy(data.train.y))
    dev = TensorDataset(torch.from_numpy(data.dev.x), torch.from_numpy(data.dev.y))
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(train, batch_size=32, shuffle=True, generator=generator), DataLoader(dev, batch_size=256)


def mean_loss(net, loader):
    net.eval()
    with torch.no_grad():
        sums = [nn.functional.cross_entropy(net(x), y, reduction="sum").item() for x, y in loader]
    return sum(sums) / len(loader.dataset)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    train, dev = loaders(data, cell.seed)
    net = nn.Sequential(nn.Linear(data.train.x.shape[1], 64), nn.ReLU(), nn.Linear(64, data.classes))
    watched = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=DECAY if cell.arm == "method" else 0.0)
    for epoch in range(EPOCHS):
        net.train()
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        lab.log("dev_loss", mean_loss(watched, dev), step=epoch, split="dev")
    net.eval()
    for split in ("validation", "test"):
        with torch.no_grad():
            logits = net(torch.from_numpy(getattr(data, split).x))
        lab.submit(cell.dataset, split, condition=cell.arm, logits=logits)


lab.measure(run)
