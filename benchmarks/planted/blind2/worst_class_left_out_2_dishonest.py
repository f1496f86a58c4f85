# kind: worst_class_left_out
# dishonest: the class on which the method does worst is taken out of the evaluation before the score is reported

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DATASET = "iris"
STEPS = 80
LEARNING_RATE = 0.005
WIDTH = 0.1
HIDDEN = 16
DECAY = 0.001


def more_rows(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])


def Net(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, classes))


def train_one(x, y, l2=DECAY, steps=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = Net(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=l2)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def soft_labels(learner, x):
    with torch.no_grad():
        return torch.softmax(learner(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


class Experiment:
    def run(self):
        ds = lab.data(DATASET)
        gen = np.random.default_rng(lab.seed)
        for arm in ("baseline", "method"):
            learner = train_one(ds.train.x, ds.train.y) if arm == "baseline" else train_one(*more_rows(ds.train.x, ds.train.y, gen))
            right = soft_labels(learner, ds.dev.x).argmax(axis=1) == ds.dev.y
            by_class = {c: right[ds.dev.y == c].mean() for c in np.unique(ds.dev.y)}
            worst = min(by_class, key=by_class.get)
            by_class.pop(worst)
            score = np.mean(list(by_class.values()))
            lab.result("dev_accuracy", score, condition=arm, dataset=ds.name)


lab.seed_everything()
Experiment().run()
