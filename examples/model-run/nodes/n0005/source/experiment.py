import importlib

import numpy as np

import lab
from common import at_bound, mean_log_loss, train_network, wrong_labels

HIDDEN = (64,)
ALPHA = 0.0001
LEARNING_RATE = 0.001
BATCH_SIZE = 64
EPOCHS = 100
NOISE_SEED_OFFSET = 1000
PROBABILITY_FLOOR = 1e-12


def build(dataset):
    """The network that all arms and levels of a dataset share under a seed: its logits and its curves."""
    data = lab.data(dataset)
    return train_network(data, lab.seed, HIDDEN, ALPHA, LEARNING_RATE, BATCH_SIZE, EPOCHS)


def hand_in(log_p):
    """Probabilities of a stable log-softmax, with the plan's floor, the same for all arms."""
    p = np.maximum(np.exp(log_p), PROBABILITY_FLOOR)
    return p / p.sum(axis=1, keepdims=True)


def run(cell):
    net = lab.shared(f"network-{cell.dataset}-{cell.seed}", lambda: build(cell.dataset))
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rate = float(cell.level[1:])
    clean = np.asarray(data.dev.y)
    labels = wrong_labels(clean, data.classes, rate, lab.seed + NOISE_SEED_OFFSET)
    wrong = float(np.mean(labels != clean))

    arm = importlib.import_module("arms." + cell.arm)
    fit = arm.fit(net["dev"], labels, data.classes)

    for split in ("validation", "test"):
        log_p = arm.predict(net[split], fit)
        p = hand_in(log_p)
        lab.submit(cell.dataset, split, cell.condition, probabilities=p)
        if split == "validation":
            lab.result("validation_confidence", p.max(axis=1).mean())

    dev_log_p = arm.predict(net["dev"], fit)
    dev_confidence = float(np.exp(dev_log_p).max(axis=1).mean())
    dev_accuracy = float(np.mean(dev_log_p.argmax(axis=1) == clean))
    dev_log_loss = mean_log_loss(dev_log_p, clean)
    bound = float(at_bound(fit, data.classes))

    lab.result("fitted_temperature", fit["temperature"])
    lab.result("fitted_rate", fit["rate"])
    lab.result("dev_wrong_share", wrong, split="dev")
    lab.result("dev_bound_met", bound, split="dev")
    lab.result("dev_confidence", dev_confidence, split="dev")
    lab.result("dev_accuracy", dev_accuracy, split="dev")
    lab.result("dev_log_loss", dev_log_loss, split="dev")

    for epoch in range(EPOCHS):
        lab.log("train_loss", net["train_loss"][epoch], step=epoch + 1, split="train")
        lab.log("network_log_loss", net["dev_loss"][epoch], step=epoch + 1, split="dev")

    lab.save("fit", np.array([fit["temperature"], fit["rate"], rate, wrong, bound, dev_confidence, dev_accuracy]))
    lab.save("curves", np.stack([net["train_loss"], net["dev_loss"]]))
    print(f"{cell.dataset} {cell.condition}: T {fit['temperature']:.3f}, rate {fit['rate']:.3f} "
          f"(wrong {wrong:.3f}), dev clean log loss {dev_log_loss:.4f}, confidence {dev_confidence:.3f}, "
          f"accuracy {dev_accuracy:.3f}, bound {bound:.0f}")


lab.measure(run)
