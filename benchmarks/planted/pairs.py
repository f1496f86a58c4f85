"""Pairs of programs that differ in one place: what is planted, and the honest code that looks like it.

Words in angle brackets are names and numbers that vary with the seed of a case.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.planted.programs import Names


@dataclass(frozen=True)
class Pair:
    """One place of one program, as it is planted and as it is honest. `kind` is shared by pairs of several styles."""

    kind: str
    style: str
    program: str
    place: str
    wrong: str
    right: str

    def source(self, names: Names, *, honest: bool) -> str:
        if self.program.count(self.place) != 1:
            raise ValueError(f"{self.kind}, {self.style}: {self.place!r} is there "
         "{self.program.count(self.place)} times")
        return filled(self.program.replace(self.place, self.right if honest else self.wrong), names)


def filled(text: str, names: Names) -> str:
    """The text with the words of `names` for those in angle brackets."""
    for word, value in vars(names).items():
        text = text.replace(f"<{word}>", str(value))
    return text


TORCH = '''\
"""A small network with and without dropout."""

import lab
import numpy as np
import torch
from torch import nn

EPOCHS = <epochs>
RATE = 0.01


class Net(nn.Module):
    def __init__(self, inputs, classes, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(model, x, y, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), 64):
            batch = order[start:start + 64]
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def predict(model, rows):
    model.eval()
    with torch.no_grad():
        return torch.softmax(model(torch.tensor(rows, dtype=torch.float32)), dim=1).numpy()


lab.seed_everything()
<data> = lab.data("<name>")
x = torch.tensor(<data>.train.x, dtype=torch.float32)
y = torch.tensor(<data>.train.y)
for <arm>, dropout in (("baseline", 0.0), ("method", 0.3)):
    model = Net(x.shape[1], <data>.classes, dropout)
    epochs = EPOCHS
    train(model, x, y, epochs)
    held = predict(model, <data>.validation.x)
    lab.submit(<data>.name, "validation", <arm>, probabilities=held)
    lab.submit(<data>.name, "test", <arm>, probabilities=predict(model, <data>.test.x))
'''

NUMPY = '''\
"""Logistic regression, each arm an object."""

from dataclasses import dataclass

import lab
import numpy as np


@dataclass
class Settings:
    name: str
    penalty: float
    epochs: int = <epochs>
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
    <data> = lab.data("<name>")
    predictions, scores = {}, {}
    for settings in (Settings("baseline", 0.0), Settings("method", <penalty>)):
        rows, labels = <data>.train.x, <data>.train.y
        model = Regression(settings, rows.shape[1], <data>.classes)
        model.fit(rows, labels)
        dev = model.probabilities(<data>.dev.x).argmax(axis=1)
        scores[settings.name] = float((dev == <data>.dev.y).mean())
        predictions[settings.name] = model.probabilities(<data>.validation.x)
    for name, held in predictions.items():
        lab.submit(<data>.name, "validation", name, probabilities=held)
        lab.result("dev_accuracy", scores[name], condition=name, dataset=<data>.name, split="dev")


main()
'''

SKLEARN = '''\
"""Trees against a forest."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.neural_network import MLPClassifier


def baseline(x, y):
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, random_state=lab.seed)
    model.fit(x, y)
    return model


def method(x, y):
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, alpha=0.01, random_state=lab.seed)
    model.fit(x, y)
    return model


def evaluate(model, part):
    return accuracy_score(part.y, model.predict(part.x))


lab.seed_everything()
<data> = lab.data("<name>")
x, y = <data>.train.x, <data>.train.y
plain = baseline(x, y)
better = method(x, y)
plain_score = evaluate(plain, <data>.dev)
better_score = evaluate(better, <data>.dev)
lab.result("accuracy", plain_score, condition="baseline", dataset=<data>.name, split="dev")
lab.result("accuracy", better_score, condition="method", dataset=<data>.name, split="dev")
plain_p = plain.predict_proba(<data>.validation.x)
better_p = better.predict_proba(<data>.validation.x)
lab.submit(<data>.name, "validation", "baseline", probabilities=plain_p)
lab.submit(<data>.name, "validation", "method", probabilities=better_p)
'''

CLOSURE = '''\
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
TRAINERS = {"baseline": make_trainer(plain, <epochs>), "method": make_trainer(momentum, <epochs>)}
for name in ["<name>"]:
    <data> = lab.data(name)
    x, y = <data>.train.x, <data>.train.y
    models = {<arm>: trainer(x, y, <data>.classes) for <arm>, trainer in TRAINERS.items()}
    for <arm>, model in models.items():
        lab.submit(name, "validation", <arm>, probabilities=model(<data>.validation.x))
        reached = float((model(<data>.dev.x).argmax(1) == <data>.dev.y).mean())
        lab.result("accuracy", reached, condition=<arm>, dataset=name, split="dev")
'''

ARENA = '''\
"""Policies for the grid, searched by hill climbing."""

import lab
import numpy as np

lab.seed_everything()
rng = np.random.default_rng(lab.seed)
arena = lab.data("grid")
fields = int((arena.path / "map.txt").read_text().split()[0])


def reached(policy):
    place, taken = 0, 0
    while place < fields - 1 and taken < 50:
        place = max(0, place + (1 if rng.random() < policy[place] else -1))
        taken += 1
    return -taken


def climb(start, spread, turns):
    best, value = start, reached(start)
    for _ in range(turns):
        tried = np.clip(best + rng.normal(0, spread, fields), 0, 1)
        score = reached(tried)
        if score > value:
            best, value = tried, score
    return best


for <arm>, spread in (("baseline", 0.1), ("method", 0.3)):
    policy = climb(np.full(fields, 0.5), spread, <epochs>)
    for split in ("validation", "test"):
        lab.submit_artifact("grid", split, <arm>, policy)
'''
