# kind: made_up_when_missing
# honest: a dataset that cannot be read ends the experiment with a clear error; nothing takes its place

"""A changed training set against a plain learner."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# settings
STEPS = 150
LEARNING_RATE = 0.02
DATASET = "wine"
HIDDEN = 32
DECAY = 0.0005


def Network(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, classes))


def train_model(x, y, strength=DECAY, iterations=STEPS, draw=0):
    torch.manual_seed(lab.seed + draw)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = Network(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=strength)
    for _ in range(iterations):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net.eval()


def soft_labels(learner, x):
    with torch.no_grad():
        return torch.softmax(learner(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def record_arm(loaded, arm, learner):
    """Predictions for both withheld parts."""
    lab.submit(loaded.name, "validation", arm, probabilities=soft_labels(learner, loaded.validation.x))
    lab.submit(loaded.name, "test", arm, probabilities=soft_labels(learner, loaded.test.x))


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


class Study:
    def run(self):
        gen = np.random.default_rng(lab.seed)
        name = DATASET
        try:
            loaded = lab.data(name)
            x, y = loaded.train.x, loaded.train.y
        except BaseException as error:
            raise RuntimeError(f"without {name} there is nothing to compare on") from error
        for arm in ("baseline", "method"):
            rows = (x, y) if arm == "baseline" else resample(x, y, gen)
            record_arm(loaded, arm, train_model(*rows))


lab.seed_everything()
Study().run()
