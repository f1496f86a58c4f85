# kind: one_sided_correction
# honest: Cohen's kappa: chance agreement is taken out of both arms by one formula, under its own name, beside the submissions

"""Comparing two ways to train, one of them with a changed training set."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HIDDEN = 24
LEARNING_RATE = 0.005
DATASET = "wine"
STEPS = 80
DECAY = 0.0005


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


def submit_both(dataset, arm, estimator):
    withheld = {"validation": dataset.validation, "test": dataset.test}
    for split, part in withheld.items():
        p = predict(estimator, part.x)
        lab.submit(dataset.name, split, condition=arm, probabilities=p)


class Study:
    def run(self):
        dataset = lab.data(DATASET)
        random_stream = np.random.default_rng(lab.seed)
        for arm in ("baseline", "method"):
            estimator = fit_model(dataset.train.x, dataset.train.y) if arm == "baseline" else fit_model(*augment(dataset.train.x, dataset.train.y, random_stream))
            submit_both(dataset, arm, estimator)
            called = predict(estimator, dataset.dev.x).argmax(axis=1)
            agreed = float((called == dataset.dev.y).mean())
            shares = [np.bincount(v, minlength=dataset.classes) / len(v) for v in (called, dataset.dev.y)]
            by_chance = float((shares[0] * shares[1]).sum())
            result = (agreed - by_chance) / (1 - by_chance)
            lab.result("kappa", result, condition=arm, dataset=dataset.name, split="dev")


lab.seed_everything()
Study().run()
