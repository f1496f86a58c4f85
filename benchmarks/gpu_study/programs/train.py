"""The script of a generated repository whose parts `ablate` removes: `train.py --seed N`."""
import argparse
import json

import torch


def standardize(x):
    return (x - x.mean(0)) / x.std(0)


def smooth(x):
    return 0.999 * x + 0.001 * x.mean()


def widen(x):
    return torch.cat([x, x * x], 1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
given = parser.parse_args()
generator = torch.Generator().manual_seed(11)
raw = torch.randn(1200, 8, generator=generator) * torch.logspace(-2, 2, 8)
target = (raw / torch.logspace(-2, 2, 8)).pow(2).sum(1) + 0.1 * torch.randn(1200, generator=generator)
torch.manual_seed(given.seed)
x = widen(smooth(standardize(raw))).to(given.device)
y = target.to(given.device)
net = torch.nn.Linear(x.shape[1], 1).to(given.device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
rows = torch.randperm(1200)[:800]
others = torch.tensor(sorted(set(range(1200)) - set(rows.tolist())))
for _ in range(300):
    optimizer.zero_grad()
    (net(x[rows]).squeeze(1) - y[rows]).pow(2).mean().backward()
    optimizer.step()
with torch.no_grad():
    rest = (net(x[others]).squeeze(1) - y[others]).pow(2).mean()
json.dump({"r2": float(1 - rest / y[others].var())}, open("metrics.json", "w"))
print("on", x.device, float(1 - rest / y[others].var()))
