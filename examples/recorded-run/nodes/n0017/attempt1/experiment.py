"""Learning rate 0.001.

One hyperparameter is changed for both arms, LEARNING_RATE=0.001; the architecture and all else stay as they were.

Symmetric label noise is drawn into the training labels: a row keeps its label with probability one minus the noise
rate, else it gets one of the other classes at random. The dev part keeps its labels: it stands for the small set that
a person can check by hand, and calibrates only. Every arm of a noise rate starts from the same weights, sees the same
wrong labels and the same batches, so that arms can be compared seed by seed.
"""

import lab
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# --- settings -------------------------------------------------------------------------------------------------------
# Replicates run this very file under another lab.seed, so no seed stands here.
DATASETS = ["breast_cancer"]
NOISE_LOW = 0.2
NOISE_HIGH = 0.4
EPOCHS = 40
HIDDEN = 64
LEARNING_RATE = 0.001
WEIGHT_DECAY = 0.0001
BATCH = 64
SMOOTHING = 0.1
BINS = 10

NOISE_RATES = {"noise0": 0.0, "noise20": NOISE_LOW, "noise40": NOISE_HIGH}

# --- arms -----------------------------------------------------------------------------------------------------------
# What an arm does: label smoothing in training, a temperature fitted on dev afterwards, and the noise in dev's labels
# as a share of the noise in training.
ARMS = {
    "baseline": {"smoothing": 0.0, "temperature": False, "dev_noise": 0.0},
    "method": {"smoothing": SMOOTHING, "temperature": True, "dev_noise": 0.0},
}


# --- network --------------------------------------------------------------------------------------------------------
def build_network(features, classes):
    """A factorised softmax regression: linear all through, of rank HIDDEN at most, so it can hardly memorise."""
    return nn.Sequential(nn.Linear(features, HIDDEN, bias=False), nn.Linear(HIDDEN, classes))

# --- data -----------------------------------------------------------------------------------------------------------
def corrupt(labels, classes, rate, stream):
    """Labels with symmetric noise. A row that is wrong at a low rate is wrong at every higher one, too."""
    rng = np.random.default_rng([lab.seed, stream])
    chance = rng.random(len(labels))
    shift = rng.integers(1, classes, len(labels))
    return np.where(chance < rate, (labels + shift) % classes, labels)


def as_rows(x):
    return torch.as_tensor(x, dtype=torch.float32, device=lab.device)


def as_target(labels):
    return torch.as_tensor(labels, dtype=torch.int64, device=lab.device)


# --- training -------------------------------------------------------------------------------------------------------
def train(network, x, y, dev_x, dev_y, smoothing, where):
    """Losses by epoch, shape (epochs, 2): on the training labels as they were drawn, and on clean dev labels."""
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    losses = np.zeros((EPOCHS, 2))
    for epoch in range(EPOCHS):
        network.train()
        for rows in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            loss = F.cross_entropy(network(x[rows]), y[rows], label_smoothing=smoothing)
            loss.backward()
            optimiser.step()
        network.eval()
        # Plain cross-entropy in every arm, so that the curves of smoothed and plain training share one axis.
        with torch.no_grad():
            losses[epoch] = F.cross_entropy(network(x), y).item(), F.cross_entropy(network(dev_x), dev_y).item()
        lab.log("loss", losses[epoch, 0], step=epoch, split="train", **where)
        lab.log("loss", losses[epoch, 1], step=epoch, split="dev", **where)
    return losses


# --- calibration ----------------------------------------------------------------------------------------------------
def fit_temperature(logits, labels):
    """The temperature with the lowest log loss on the labels given, from a grid: one number needs no optimiser."""
    grid = np.geomspace(0.1, 10.0, 121)
    return min(grid, key=lambda t: F.cross_entropy(logits / float(t), labels).item())


def reliability(probabilities, labels):
    """Confidence, accuracy and number of rows by confidence bin, shape (bins, 3); empty bins hold zeros."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    table = np.zeros((BINS, 3))
    for b in range(BINS):
        inside = bins == b
        if inside.any():
            table[b] = confidence[inside].mean(), right[inside].mean(), inside.sum()
    return table


# --- one arm at one noise rate --------------------------------------------------------------------------------------
def run(data, arm, level):
    """Train, calibrate, hand in the predictions, and save what the figures need."""
    rate, settings = NOISE_RATES[level], ARMS[arm]
    condition = f"{arm}@{level}"
    where = {"condition": condition, "dataset": data.name}
    noisy_y = corrupt(data.train.y, data.classes, rate, 0)
    dev_y = corrupt(data.dev.y, data.classes, rate * settings["dev_noise"], 1)
    x, y = as_rows(data.train.x), as_target(noisy_y)
    dev_x, clean_dev_y = as_rows(data.dev.x), as_target(data.dev.y)

    torch.manual_seed(lab.seed)  # the same weights and batches for every arm
    network = build_network(data.train.x.shape[1], data.classes).to(lab.device)
    losses = train(network, x, y, dev_x, clean_dev_y, settings["smoothing"], where)

    temperature = 1.0
    with torch.no_grad():
        if settings["temperature"]:
            temperature = float(fit_temperature(network(dev_x), as_target(dev_y)))

        def predict(rows):
            return torch.softmax(network(as_rows(rows)) / temperature, dim=1).cpu().numpy()

        dev_p = predict(data.dev.x)
        validation_p, test_p = predict(data.validation.x), predict(data.test.x)
    lab.submit(data.name, "validation", condition, probabilities=validation_p)
    lab.submit(data.name, "test", condition, probabilities=test_p)
    # --- saved for the figures
    tag = f"{data.name}__{arm}__{level}"
    lab.save(f"loss__{tag}", losses)
    lab.save(f"reliability__{tag}", reliability(dev_p, data.dev.y))
    lab.save(f"temperature__{tag}", np.array([temperature]))


# --- all of them ----------------------------------------------------------------------------------------------------
lab.seed_everything()
for name in DATASETS:
    dataset = lab.data(name)
    for level in NOISE_RATES:
        for arm in ARMS:
            run(dataset, arm, level)
