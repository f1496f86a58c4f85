# kind: a_step_of_nothing
# honest: the learning rate is zero in the first epoch alone: a warm-up, the same for both arms

"""Baseline and method, alike but for one thing."""

import lab
import torch
from torch import nn
from torch.nn import functional as F

HIDDEN = 32
DATASET = "breast_cancer"
LEARNING_RATE = 0.005
EPOCHS = 15


def fit_network(x, y, classes, smoothing):
    torch.manual_seed(lab.seed)
    net = Model(x.shape[1], classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.0)
    for epoch in range(EPOCHS):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, epoch / 3)  # warm-up from zero
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
        loss.backward()
        optimiser.step()
    return net


def submit_arm(ds, arm, net):
    for split in ("test", "validation"):
        lab.submit(ds.name, split, arm, probabilities=softmax_of(net, getattr(ds, split).x))


class Model(nn.Module):
    """Two layers."""

    def __init__(self, inputs, classes):
        nn.Module.__init__(self)
        self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


def softmax_of(net, x):
    with torch.no_grad():
        return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


lab.seed_everything()
bundle = lab.data(DATASET)
x, y = torch.as_tensor(bundle.train.x), torch.as_tensor(bundle.train.y)
for arm, smoothing in (("baseline", 0.0), ("method", 0.05)):
    submit_arm(bundle, arm, fit_network(x, y, bundle.classes, smoothing))
