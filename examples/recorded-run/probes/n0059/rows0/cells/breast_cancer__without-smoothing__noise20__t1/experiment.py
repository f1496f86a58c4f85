"""Factorised softmax regression under label noise.

A linear model can hardly learn wrong labels by heart, so it shows what noise does to calibration without memorising.
Plain cross-entropy is compared with label smoothing and a temperature fitted on the dev part.

Symmetric label noise is drawn into the training labels: a row keeps its label with probability one minus the noise
rate, else it gets one of the other classes at random. The dev part keeps its labels: it stands for the small set that
a person can check by hand, and calibrates only. Every arm of a noise rate starts from the same weights, sees the same
wrong labels and the same batches, so that arms can be compared seed by seed.
"""

import itertools

import lab
import numpy as np

# --- settings -------------------------------------------------------------------------------------------------------
# Replicates run this very file under another lab.seed, so no seed stands here.
NOISE_LOW = 0.2
NOISE_HIGH = 0.4
EPOCHS = 40
HIDDEN = 64
DEPTH = 1
SLOPE = 1.0
DROPOUT = 0.0
BATCH = 64
BINS = 10

NOISE_RATES = {"noise0": 0.0, "noise20": NOISE_LOW, "noise40": NOISE_HIGH}

# --- arms -----------------------------------------------------------------------------------------------------------
# What an arm does: how much of the chosen weight decay and smoothing it has in training, a temperature fitted on dev
# afterwards, and the noise in dev's labels as a share of the noise in training.
ARMS = {
    "baseline": {"decay": 1.0, "smoothing": 0.0, "temperature": False, "dev_noise": 0.0},
    "method": {"decay": 1.0, "smoothing": 1.0, "temperature": True, "dev_noise": 0.0},
    "without-smoothing": {"decay": 1.0, "smoothing": 0.0, "temperature": True, "dev_noise": 0.0},
}


# --- network --------------------------------------------------------------------------------------------------------
def build_network(features, classes, rng):
    """A perceptron with DEPTH hidden layers, as weights and biases in turn."""
    sizes = [features, *[HIDDEN] * DEPTH, classes]
    network = []
    for inputs, outputs in itertools.pairwise(sizes):
        network += [rng.normal(0.0, (2 / inputs) ** 0.5, (inputs, outputs)), np.zeros(outputs)]
    return network


def forward(network, x, kept=(1.0,) * DEPTH):
    """Logits, what each layer was given, and the slopes of the hidden units, of which `kept` are not dropped.

    SLOPE is that of a unit below zero: 0 makes it a rectifier, 1 leaves the network linear.
    """
    given, slopes = [x], []
    for weights, bias, mask in zip(network[:-2:2], network[1:-2:2], kept, strict=True):
        z = given[-1] @ weights + bias
        slopes.append(np.where(z > 0, 1.0, SLOPE) * mask)
        given.append(z * slopes[-1])
    return given[-1] @ network[-2] + network[-1], given, slopes


def softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def cross_entropy(logits, labels):
    return float(-np.log(softmax(logits)[np.arange(len(labels)), labels] + 1e-12).mean())


def gradients(network, x, targets, kept):
    """The slope of the mean cross-entropy by each array of the network."""
    logits, given, slopes = forward(network, x, kept)
    error = (softmax(logits) - targets) / len(x)
    found = [given[-1].T @ error, error.sum(axis=0)]
    for k in reversed(range(len(slopes))):
        error = error @ network[2 * k + 2].T * slopes[k]
        found = [given[k].T @ error, error.sum(axis=0), *found]
    return found


# --- data -----------------------------------------------------------------------------------------------------------
def corrupt(labels, classes, rate, stream):
    """Labels with symmetric noise. A row that is wrong at a low rate is wrong at every higher one, too."""
    rng = np.random.default_rng([lab.seed, stream])
    chance = rng.random(len(labels))
    shift = rng.integers(1, classes, len(labels))
    return np.where(chance < rate, (labels + shift) % classes, labels)


# --- training -------------------------------------------------------------------------------------------------------
def train(network, x, y, dev_x, dev_y, setting, where, rng):
    """The network as trained, and losses by epoch, shape (epochs, 2): on the training labels as they were drawn, and on
    clean dev labels."""
    classes = network[-1].size
    targets = (1 - setting["smoothing"]) * np.eye(classes)[y] + setting["smoothing"] / classes
    means, squares = ([np.zeros_like(array) for array in network] for _ in range(2))
    losses = np.zeros((EPOCHS, 2))
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            rows, step = order[start:start + BATCH], step + 1
            kept = [(rng.random((len(rows), HIDDEN)) >= DROPOUT) / (1 - DROPOUT) for _ in range(DEPTH)]
            slopes = gradients(network, x[rows], targets[rows], kept)
            slopes = [slope + setting["weight_decay"] * array for slope, array in zip(slopes, network, strict=True)]
            means = [0.9 * mean + 0.1 * slope for mean, slope in zip(means, slopes, strict=True)]
            squares = [0.999 * square + 0.001 * slope**2 for square, slope in zip(squares, slopes, strict=True)]
            rate = setting["learning_rate"] * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)  # of Adam
            network = [array - rate * mean / (np.sqrt(square) + 1e-8)
                       for array, mean, square in zip(network, means, squares, strict=True)]
        # Plain cross-entropy in every arm, so that the curves of smoothed and plain training share one axis.
        losses[epoch] = cross_entropy(forward(network, x)[0], y), cross_entropy(forward(network, dev_x)[0], dev_y)
        lab.log("loss", losses[epoch, 0], step=epoch, split="train", **where)
        lab.log("loss", losses[epoch, 1], step=epoch, split="dev", **where)
    return network, losses


# --- calibration ----------------------------------------------------------------------------------------------------
def fit_temperature(logits, labels):
    """The temperature with the lowest log loss on the labels given, from a grid: one number needs no optimiser."""
    grid = np.geomspace(0.1, 10.0, 121)
    return min(grid, key=lambda t: cross_entropy(logits / t, labels))


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
def run(cell):
    """Train, calibrate, hand in the predictions, and save what the figures need."""
    lab.seed_everything()
    data, rate, arm = lab.data(cell.dataset), NOISE_RATES[cell.level], ARMS[cell.arm]
    where = {"condition": cell.condition, "dataset": cell.dataset}
    y = corrupt(data.train.y, data.classes, rate, 0)
    dev_y = corrupt(data.dev.y, data.classes, rate * arm["dev_noise"], 1)
    setting = {"learning_rate": cell.setting["learning_rate"], "smoothing": 0.0,
               "weight_decay": arm["decay"] * cell.setting["weight_decay"]}
    if arm["smoothing"]:  # the baseline has no strength
        setting["smoothing"] = arm["smoothing"] * cell.setting["smoothing"]

    rng = np.random.default_rng(lab.seed)  # the same weights and batches for every arm
    network = build_network(data.train.x.shape[1], data.classes, rng)
    network, losses = train(network, data.train.x, y, data.dev.x, data.dev.y, setting, where, rng)
    temperature = 1.0
    if arm["temperature"]:
        temperature = float(fit_temperature(forward(network, data.dev.x)[0], dev_y))

    def predict(rows):
        return softmax(forward(network, rows)[0] / temperature)

    dev_p = predict(data.dev.x)
    validation_p, test_p = predict(data.validation.x), predict(data.test.x)
    lab.submit(cell.dataset, "validation", cell.condition, probabilities=validation_p)
    lab.submit(cell.dataset, "test", cell.condition, probabilities=test_p)
    # --- saved for the figures, each array as NAME__dataset__arm__level
    lab.save("loss", losses)
    lab.save("reliability", reliability(dev_p, data.dev.y))
    lab.save("temperature", np.array([temperature]))


lab.measure(run)
