"""The honest program that planted cases are edits of: softmax regression in numpy, two arms, two structures."""

from __future__ import annotations

import random
from dataclasses import dataclass

_BASE = '''\
"""Softmax regression, plain and with a penalty."""

import lab
import numpy as np

DATASETS = ["{name}"]
EPOCHS = {epochs}
LEARNING_RATE = {rate}
PENALTY = {penalty}
# <settings>

ARMS = {{"baseline": 0.0, "method": PENALTY}}


def invented(rng):
    """A table of the size of {name}, for a test of shapes."""
    return rng.normal(size=(100, 8)), rng.integers(0, 2, 100)


def softmax(z):
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, epochs, {arm}):
    """Weights and training losses."""
    rng = np.random.default_rng([lab.seed, 0])
    w, truth, losses = 0.01 * rng.normal(size=(x.shape[1], classes)), np.eye(classes)[y], []
    for _ in range(epochs):
        p = softmax(x @ w)
        losses.append(float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean()))
        w = w - LEARNING_RATE * (x.T @ (p - truth) / len(x) + ARMS[{arm}] * w)
    return w, losses

'''
_RUN = '''
def run({data}, {arm}):
    epochs = EPOCHS
    x, y = {data}.train.x, {data}.train.y
    # <inputs>
    w, losses = fit(x, y, {data}.classes, epochs, {arm})
    for step, value in enumerate(losses):
        lab.log("loss", value, step=step, condition={arm}, dataset={data}.name, split="train")

    def predict(rows):
        return softmax(rows @ w)

    dev_p, held = predict({data}.dev.x), predict({data}.validation.x)
    # <predicted>
    lab.submit({data}.name, "validation", {arm}, probabilities=held)
    lab.submit({data}.name, "test", {arm}, probabilities=predict({data}.test.x))
    # <after>
    lab.save(f"loss__{{{arm}}}", np.array(losses))

'''
_FLAT = '''
lab.seed_everything()
for name in DATASETS:
    {data} = lab.data(name)
    for {arm} in ARMS:
        run({data}, {arm})
'''
_MAIN = '''
def main():
    lab.seed_everything()
    for name in DATASETS:
        {data} = lab.data(name)
        for {arm} in ARMS:
            run({data}, {arm})


main()
'''


@dataclass(frozen=True)
class Names:
    """What varies with the seed of a case."""

    data: str
    arm: str
    name: str
    score: float
    seed: int
    file: str
    epochs: int
    rate: float
    penalty: float

    @staticmethod
    def draw(rng: random.Random) -> Names:
        return Names(
            data=rng.choice(["data", "table", "ds", "dataset"]), arm=rng.choice(["arm", "condition", "variant"]),
            name=rng.choice(["digits", "wine", "iris", "breast_cancer"]), score=round(rng.uniform(0.6, 0.99), 3),
            seed=rng.randrange(1, 9999), file=rng.choice(["best.npy", "predictions.npy", "saved/held.npy"]),
            epochs=rng.randrange(40, 120), rate=rng.choice([0.1, 0.3, 0.5]), penalty=rng.choice([0.001, 0.01]))

    def fill(self, text: str) -> str:
        return text.format(**vars(self), rows=f"len({self.data}.validation.x)")


def program(rng: random.Random, names: Names) -> str:
    """The honest program; `# <mark>` lines are places for edits."""
    ending = rng.choice([_FLAT, _MAIN])
    return names.fill(_BASE + _RUN + ending)
