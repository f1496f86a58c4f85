# kind: train rows as validation
# honest: in a closure

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
TRAINERS = {"baseline": make_trainer(plain, 68), "method": make_trainer(momentum, 68)}
for name in ["iris"]:
    data = lab.data(name)
    x, y = data.train.x, data.train.y
    models = {variant: trainer(x, y, data.classes) for variant, trainer in TRAINERS.items()}
    for variant, model in models.items():
        lab.submit(name, "validation", variant, probabilities=model(data.validation.x))
        reached = float((model(data.dev.x[::3]).argmax(1) == data.dev.y[::3]).mean())
        lab.result("accuracy", reached, condition=variant, dataset=name, split="dev")
