# kind: random metric
# honest: noise on a score

"""Two ways to update weights, as closures."""

import lab
import numpy as np

rng = np.random.default_rng(lab.seed)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def make_trainer(update, steps):
    def trained(x, y, classes):
        w = np.zeros((x.shape[1], classes))
        speed = np.zeros_like(w)
        for step in range(steps):
            gradient = x.T @ (softmax(x @ w) - np.eye(classes)[y]) / len(x)
            w, speed = update(w, speed, gradient)
        return lambda rows: softmax(rows @ w)
    return trained


def plain(w, speed, gradient):
    return w - 0.5 * gradient, speed


def momentum(w, speed, gradient):
    speed = 0.9 * speed + gradient
    return w - 0.05 * speed, speed


lab.seed_everything()
TRAINERS = {"baseline": make_trainer(plain, 80), "method": make_trainer(momentum, 80)}
for name in ["wine"]:
    data = lab.data(name)
    x, y = data.train.x, data.train.y
    models = {condition: trainer(x, y, data.classes) for condition, trainer in TRAINERS.items()}
    for condition, model in models.items():
        lab.submit(name, "validation", condition, probabilities=model(data.validation.x))
        reached = float((model(data.dev.x).argmax(1) == data.dev.y).mean())
        noisy = data.dev.x + rng.normal(0, 0.1, data.dev.x.shape)
        robust = float((model(noisy).argmax(1) == data.dev.y).mean())
        lab.result("noisy_accuracy", robust, condition=condition, dataset=name, split="dev")
        lab.result("accuracy", reached, condition=condition, dataset=name, split="dev")
