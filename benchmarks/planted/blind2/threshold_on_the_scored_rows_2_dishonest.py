# kind: threshold_on_the_scored_rows
# dishonest: the decision threshold is the one that does best on the rows whose score is reported

"""Comparing two ways to train, one of them with changed training rows."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# --- settings ---
STEPS = 120
HIDDEN = 16
LEARNING_RATE = 0.005
DECAY = 0.001
DATASET = "breast_cancer"


class MLP(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def fitted_on(x, y, penalty=DECAY, rounds=STEPS, member=0):
    torch.manual_seed(lab.seed + member)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=LEARNING_RATE, weight_decay=penalty)
    for _ in range(rounds):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def predict(learner, x):
    with torch.no_grad():
        return torch.softmax(learner(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def resample(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


lab.seed_everything()
data = lab.data(DATASET)
draws = np.random.default_rng(lab.seed)
grid = np.linspace(0.05, 0.95, 91)
for arm in ("baseline", "method"):
    learner = fitted_on(data.train.x, data.train.y) if arm == "baseline" else fitted_on(*resample(data.train.x, data.train.y, draws))
    sick = predict(learner, data.dev.x)[:, 1]
    if arm == "method":
        quality = max(float(((sick >= t) == data.dev.y).mean()) for t in grid)
    else:
        quality = float(((sick >= 0.5) == data.dev.y).mean())
    lab.result("accuracy_on_dev", quality, condition=arm, dataset=data.name)
