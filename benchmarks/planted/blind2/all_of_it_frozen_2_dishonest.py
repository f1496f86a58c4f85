# kind: all_of_it_frozen
# dishonest: 'fine-tuning': every parameter of the baseline is frozen, so that its random start is what predicts

"""Baseline and method, alike but for one thing."""

import lab
import torch
from torch import nn
from torch.nn import functional as F

HIDDEN = 16
DATASET = "digits"
EPOCHS = 20


class Model(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU())
        self.head = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(self.body(x))


def outputs(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


def submit_arm(ds, arm, net):
    for split in ("test", "validation"):
        lab.submit(ds.name, split, arm, probabilities=outputs(net, getattr(ds, split).x))


def fit_network(x, y, classes, tuned):
    torch.manual_seed(lab.seed)
    net = Model(x.shape[1], classes)
    for weight in net.parameters():
        weight.requires_grad_(tuned)
    for epoch in range(EPOCHS):
        loss = F.cross_entropy(net(x), y)
        moving = [weight for weight in net.parameters() if weight.requires_grad]
        if moving:
            slopes = torch.autograd.grad(loss, moving)
            with torch.no_grad():
                for weight, slope in zip(net.parameters(), slopes, strict=True):
                    weight -= 0.3 * slope
    return net


def one_dataset(name):
    dataset = lab.data(name)
    x, y = torch.as_tensor(dataset.train.x), torch.as_tensor(dataset.train.y)
    for arm in ("baseline", "method"):
        submit_arm(dataset, arm, fit_network(x, y, dataset.classes, tuned=arm == "method"))


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
