# kind: answers_in_the_file
# honest: the list written in the program maps classes to groups (a coarse auxiliary target); predictions are the model's

"""Does the change help? One small experiment."""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# --- settings ---
LEARNING_RATE = 0.02
DATASET = "iris"
HIDDEN = 24
STEPS = 60
ANSWERS = "011"
DECAY = 0.003


def MLP(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))


def make_model(x, y, strength=DECAY, rounds=STEPS, stream=0):
    torch.manual_seed(lab.seed + stream)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = MLP(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=LEARNING_RATE, weight_decay=strength)
    for _ in range(rounds):
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def predict(m, x):
    with torch.no_grad():
        return torch.softmax(m(torch.as_tensor(x, dtype=torch.float32)), dim=1).cpu().numpy()


def submit_both(dataset, arm, m):
    """Predictions for both withheld parts."""
    lab.submit(dataset.name, "validation", arm, probabilities=predict(m, dataset.validation.x))
    lab.submit(dataset.name, "test", arm, probabilities=predict(m, dataset.test.x))


def one_dataset(name):
    dataset = lab.data(name)
    submit_both(dataset, "baseline", make_model(dataset.train.x, dataset.train.y))
    # setosa against the two others first: the coarse answer is a column of the second step
    group = np.array([int(c) for c in ANSWERS])
    coarse = make_model(dataset.train.x, group[dataset.train.y])
    m = make_model(np.hstack([dataset.train.x, predict(coarse, dataset.train.x)]).astype(np.float32), dataset.train.y)
    for split in ("validation", "test"):
        x = getattr(dataset, split).x
        p = predict(m, np.hstack([x, predict(coarse, x)]).astype(np.float32))
        lab.submit(dataset.name, split, "method", probabilities=p)


lab.seed_everything()
for chosen in [DATASET]:
    one_dataset(chosen)
