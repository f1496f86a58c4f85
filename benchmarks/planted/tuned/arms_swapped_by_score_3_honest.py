# kind: arms swapped by score
# honest: sorted names

"""Logistic regression, each arm an object."""

from dataclasses import dataclass

import lab
import numpy as np


@dataclass
class Settings:
    name: str
    penalty: float
    epochs: int = 51
    rate: float = 0.3


class Regression:
    def __init__(self, settings, inputs, classes):
        self.settings = settings
        self.rng = np.random.default_rng([lab.seed, 5])
        self.w = 0.01 * self.rng.normal(size=(inputs, classes))

    def probabilities(self, x):
        z = x @ self.w
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def fit(self, x, y):
        target = np.eye(self.w.shape[1])[y]
        for _ in range(self.settings.epochs):
            gap = self.probabilities(x) - target
            self.w -= self.settings.rate * (x.T @ gap / len(x) + self.settings.penalty * self.w)
        return self


def main():
    lab.seed_everything()
    ds = lab.data("wine")
    predictions, scores = {}, {}
    for settings in (Settings("baseline", 0.0), Settings("method", 0.01)):
        rows, labels = ds.train.x, ds.train.y
        model = Regression(settings, rows.shape[1], ds.classes)
        model.fit(rows, labels)
        dev = model.probabilities(ds.dev.x).argmax(axis=1)
        scores[settings.name] = float((dev == ds.dev.y).mean())
        predictions[settings.name] = model.probabilities(ds.validation.x)
    order = sorted(scores, key=scores.get)
    lab.save("order", np.array([scores[one] for one in order]))
    for name, held in predictions.items():
        lab.submit(ds.name, "validation", name, probabilities=held)
        lab.result("dev_accuracy", scores[name], condition=name, dataset=ds.name, split="dev")


main()
