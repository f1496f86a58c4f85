# kind: invented_loss_curve
# honest: the exponential is a learning rate schedule, logged as one; the loss beside it is computed from predictions

"""We test whether we gain from a changed training set.

Both arms use one learner."""

import lab
import math
import numpy as np

DATASET = "iris"
RATE = 0.2
STEPS = 120
DECAY = 0.001
EPOCHS = 12


def softmax(z):
    e = np.exp(z - np.max(z, axis=1)[:, None])
    return e / e.sum(axis=1, keepdims=True)


def with_ones(x):
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def train_one(x, y, l2=DECAY, budget=STEPS, replica=0):
    """Full-batch softmax regression."""
    rng = np.random.default_rng([lab.seed, replica])
    weights = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = with_ones(x), np.eye(weights.shape[1])[y]
    for _ in range(budget):
        slope = rows.T @ (softmax(rows @ weights) - target) / len(y)
        weights = (1 - RATE * l2) * weights - RATE * slope
    return weights


def class_probabilities(model, x):
    return softmax(with_ones(x) @ model)


def submit_both(ds, arm, model):
    withheld = {"validation": ds.validation, "test": ds.test}
    for split, part in withheld.items():
        p = class_probabilities(model, part.x)
        lab.submit(ds.name, split, condition=arm, probabilities=p)


def more_rows(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])


def main():
    lab.seed_everything()
    ds = lab.data(DATASET)
    gen = np.random.default_rng(lab.seed)
    x_more, y_more = more_rows(ds.train.x, ds.train.y, gen)
    models = {"baseline": train_one(ds.train.x, ds.train.y), "method": train_one(x_more, y_more)}
    for arm, model in models.items():
        submit_both(ds, arm, model)
    for arm in ("baseline", "method"):
        rows = (ds.train.x, ds.train.y) if arm == "baseline" else more_rows(ds.train.x, ds.train.y, gen)
        for epoch in range(5, 5 + EPOCHS, 2):
            strength = DECAY * math.exp(-0.15 * epoch)
            p = class_probabilities(train_one(*rows, strength, epoch), ds.dev.x)
            height = -float(np.log(p[np.arange(len(ds.dev.y)), ds.dev.y] + 1e-7).mean())
            lab.log("strength", strength, step=epoch,
                condition=arm, dataset=ds.name, split="train")
            lab.log("loss", height, step=epoch, condition=arm, dataset=ds.name, split="dev")


if __name__ == "__main__":
    main()
