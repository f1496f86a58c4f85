# kind: a_step_of_nothing
# dishonest: the baseline's optimiser never moves its weights (learning rate zero, no step, or no gradients)

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import torch
from torch import nn
from torch.nn import functional as F

# --- settings ---
HIDDEN = 32
LEARNING_RATE = 0.01
DATASET = "wine"
EPOCHS = 20


def probabilities(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


class Model(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh())
        self.head = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(self.body(x))


def give(ds, arm, net):
    for split in ("test", "validation"):
        lab.submit(ds.name, split, arm, probabilities=probabilities(net, getattr(ds, split).x))


def trained(x, y, classes, smoothing):
    torch.manual_seed(lab.seed)
    net = Model(x.shape[1], classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
        loss.backward()
        if smoothing > 0:
            optimiser.step()
    return net


def one_dataset(name):
    data = lab.data(name)
    x, y = torch.as_tensor(data.train.x), torch.as_tensor(data.train.y)
    for arm, smoothing in (("baseline", 0.0), ("method", 0.05)):
        give(data, arm, trained(x, y, data.classes, smoothing))


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
