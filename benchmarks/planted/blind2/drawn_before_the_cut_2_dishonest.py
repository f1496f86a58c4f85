# kind: drawn_before_the_cut
# dishonest: rows are multiplied first and cut into train and held-out rows afterwards, so that copies stand on both sides

"""What comes of other training rows?"""

import lab
import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

# settings
DECAY = 0.003
STEPS = 120
HIDDEN = 24
DATASET = "iris"
LEARNING_RATE = 0.01


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
    x_more, y_more = np.concatenate([loaded.train.x] * 3), np.concatenate([loaded.train.y] * 3)
    x_more = (x_more + rng.normal(0, 0.03, x_more.shape)).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(y_more))
    rows, rest = order[len(order) // 4 :], order[: len(order) // 4]
    a, b, ya, yb = x_more[rows], x_more[rest], y_more[rows], y_more[rest]
    lab.result("dev_accuracy", accuracy(soft_labels(fit_model(a, ya), b), yb),
        condition="method", dataset=loaded.name)
    a, b, ya, yb = train_test_split(loaded.train.x, loaded.train.y, test_size=0.25, random_state=0)
    lab.result("dev_accuracy", accuracy(soft_labels(fit_model(a, ya), b), yb),
        condition="baseline", dataset=loaded.name)


if __name__ == "__main__":
    go()
