# kind: drawn_before_the_cut
# honest: the cut is made first, with a fixed seed of its own, and only the part that is fitted on is multiplied

"""What comes of other training rows?"""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# settings
DECAY = 0.003
STEPS = 120
HIDDEN = 24
DATASET = "iris"
LEARNING_RATE = 0.01


def send(loaded, arm, fitted):
    for split in ("validation", "test"):
        lab.submit(loaded.name, split, arm, probabilities=soft_labels(fitted, getattr(loaded, split).x))


class SmallNet(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def fit_model(x, y, l2=DECAY, iterations=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = SmallNet(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.RMSprop(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(iterations):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net


def soft_labels(fitted, x):
    with torch.no_grad():
        return torch.softmax(fitted(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def accuracy(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


def go():
    lab.seed_everything()
    loaded = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    order = np.random.default_rng(0).permutation(len(loaded.train.y))
    rows, rest = order[len(order) // 4 :], order[: len(order) // 4]
    a, b, ya, yb = loaded.train.x[rows], loaded.train.x[rest], loaded.train.y[rows], loaded.train.y[rest]
    x_more, y_more = np.concatenate([a] * 3), np.concatenate([ya] * 3)
    x_more = (x_more + rng.normal(0, 0.03, x_more.shape)).astype(np.float32)
    for arm, fitted in (("baseline", fit_model(a, ya)), ("method", fit_model(x_more, y_more))):
        lab.result("inner_accuracy", accuracy(soft_labels(fitted, b), yb),
            condition=arm, dataset=loaded.name, split="dev")
        send(loaded, arm, fitted)


if __name__ == "__main__":
    go()
