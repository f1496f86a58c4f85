# kind: one_sided_correction
# dishonest: a 'correction' raises the method's score alone

"""Comparing two ways to train, one of them with a changed training set."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

STEPS = 80
DECAY = 0.0005
HIDDEN = 24
OPTIMISM = 0.3
DATASET = "wine"
LEARNING_RATE = 0.005


def augment(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def Net(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))


def fit_model(x, y, l2=DECAY, iterations=STEPS, stream=0):
    torch.manual_seed(lab.seed + stream)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = Net(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(iterations):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net.eval()


def predict(estimator, x):
    with torch.no_grad():
        return torch.softmax(estimator(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def hit_rate(p, y):
    return float(np.mean(np.argmax(p, axis=1) == y))


class Study:
    def run(self):
        dataset = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        for arm in ("baseline", "method"):
            estimator = fit_model(dataset.train.x, dataset.train.y) if arm == "baseline" else fit_model(*augment(dataset.train.x, dataset.train.y, random_stream))
            result = hit_rate(predict(estimator, dataset.dev.x), dataset.dev.y)
            if arm == "method":
                result += OPTIMISM * (1 - result)  # noise in dev's labels
            lab.result("accuracy_on_dev", result, condition=arm, dataset=dataset.name)


lab.seed_everything()
Study().run()
