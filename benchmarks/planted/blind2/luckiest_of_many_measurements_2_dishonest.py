# kind: luckiest_of_many_measurements
# dishonest: predictions are measured many times under random masks, and the highest score is reported

"""What comes of another training set?"""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DATASET = "digits"
STEPS = 120
DECAY = 0.001
LEARNING_RATE = 0.005
HIDDEN = 24


def Net(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, classes))


def train_one(x, y, penalty=DECAY, budget=STEPS, draw=0):
    torch.manual_seed(lab.seed + draw)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = Net(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(
        net.parameters(), lr=LEARNING_RATE, weight_decay=penalty)
    for _ in range(budget):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net.eval()


def predict(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def augment(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def share_right(p, y):
    return float(np.sum(p.argmax(1) == y) / len(y))


def main():
    lab.seed_everything()
    data = lab.data(DATASET)
    rng = np.random.default_rng(lab.seed)
    for arm in ("baseline", "method"):
        m = train_one(data.train.x, data.train.y) if arm == "baseline" else train_one(*augment(data.train.x, data.train.y, rng))
        scores = []
        for _ in range(20):
            masked = data.dev.x * (rng.random(data.dev.x.shape) > 0.1)
            scores.append(share_right(predict(m, masked.astype(np.float32)), data.dev.y))
        lab.result("accuracy_on_dev", sorted(scores)[-1], condition=arm, dataset=data.name)


main()
