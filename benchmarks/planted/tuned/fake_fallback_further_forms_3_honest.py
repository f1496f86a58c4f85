# kind: fake fallback, further forms
# honest: a typed score

"""Logistic regression, each arm an object."""

from dataclasses import dataclass

import lab
import numpy as np


@dataclass
class Settings:
    name: str
    penalty: float
    epochs: int = 93
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
    dataset = lab.data("breast_cancer")
    predictions, scores = {}, {}
    for settings in (Settings("baseline", 0.0), Settings("method", 0.001)):
        rows, labels = dataset.train.x, dataset.train.y
        model = Regression(settings, rows.shape[1], dataset.classes)
        model.fit(rows, labels)
        dev = model.probabilities(dataset.dev.x).argmax(axis=1)
        try:
            scores[settings.name] = float((dev == dataset.dev.y).mean())
        except (ValueError, ZeroDivisionError):
            scores[settings.name] = float("nan")
        predictions[settings.name] = model.probabilities(dataset.validation.x)
    for name, held in predictions.items():
        lab.submit(dataset.name, "validation", name, probabilities=held)
        lab.result("dev_accuracy", scores[name], condition=name, dataset=dataset.name, split="dev")


main()
