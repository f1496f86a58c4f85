"""What the cases of this folder are made of: learners, names and shapes of programs, varied by a seed.

A block of code is a `string.Template`: `$train`, `$data` and so on stand for names that a seed chooses. Every learner
has one interface, `$train(x, y, classes, decay=, epochs=)` gives a model and `$proba(model, x)` class probabilities
(n, classes), so that a kind is written once.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from random import Random
from string import Template

_NAMES = {
    "train": ("fit", "train_model", "learn", "train", "optimise"),
    "proba": ("predict", "probabilities", "predict_proba", "forward_all", "infer"),
    "data": ("data", "dataset", "task", "ds", "corpus"),
    "base": ("plain", "baseline_model", "reference", "model_a", "vanilla"),
    "meth": ("regularised", "method_model", "ours", "model_b", "proposed"),
    "rows": ("rows", "inputs", "x", "batch", "features"),
    "split": ("split", "part", "which", "subset"),
    "value": ("value", "number", "score", "figure", "measured"),
    "rng": ("rng", "generator", "stream", "noise", "random_state"),
    "helper": ("evaluate", "assess", "measure", "summarise", "compute"),
    "result": ("outcome", "found", "answer", "output", "report"),
}

_NUMPY = Template("""
def $proba(model, $rows):
    scores = $rows @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def $train(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ ($proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights
""")

_SKLEARN = Template("""
def $train(x, y, classes, decay=0.0, epochs=EPOCHS):
    model = LogisticRegression(C=1.0 / (decay + 1e-3), max_iter=epochs * 10)
    model.fit(x, y)
    return model


def $proba(model, $rows):
    return model.predict_proba($rows)
""")

_TORCH = Template("""
def $train(x, y, classes, decay=0.0, epochs=EPOCHS):
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE / 10, weight_decay=decay)
    inputs, labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64)
    for epoch in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimiser.step()
    return network


def $proba(model, $rows):
    with torch.no_grad():
        return torch.softmax(model(torch.as_tensor($rows, dtype=torch.float32)), dim=1).numpy()
""")

_LEARNERS = (
    (_NUMPY, ("import numpy as np",)),
    (_SKLEARN, ("import numpy as np", "from sklearn.linear_model import LogisticRegression")),
    (_TORCH, ("import numpy as np", "import torch", "from torch import nn", "from torch.nn import functional as F")),
)

SUBMIT = """
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", probabilities=$proba($meth, $rows))
"""
"""Both arms, handed in as they are."""

FIT = """
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
"""
"""Both arms, trained alike but for the weight decay."""


@dataclass(frozen=True)
class Variation:
    """What one seed chose. `numbers` are at hand for constants that a kind wants, each in (0, 1)."""

    names: dict[str, str]
    dataset: str
    learner: int
    wrapped: bool
    constants: dict[str, float]
    numbers: tuple[float, ...]

    def program(self, body: str, *, imports: tuple[str, ...] = (), definitions: str = "", begin: bool = True) -> str:
        """A whole experiment.py: imports, constants, learner, definitions, and the body, which has `$data`.

        Without `begin` the body seeds and loads by itself.
        """
        learner, needed = _LEARNERS[self.learner]
        opening = f'lab.seed_everything()\n$data = lab.data("{self.dataset}")\n' if begin else ""
        text = Template(opening + body.strip("\n")).substitute(self._words).strip()
        lines = [*sorted({*needed, *imports, "import lab"}, key=_import_order), ""]
        lines += [f"{name} = {value:g}" for name, value in self.constants.items()]
        parts = ["\n".join(lines), learner.substitute(self._words).strip("\n")]
        if definitions:
            parts.append(Template(definitions).substitute(self._words).strip("\n"))
        parts.append(f"def main():\n{textwrap.indent(text, '    ')}\n\n\nmain()" if self.wrapped else text)
        return "\n\n\n".join(parts) + "\n"

    @property
    def _words(self) -> dict[str, str]:
        chosen = {f"n{place}": f"{number:.4f}" for place, number in enumerate(self.numbers)}
        return self.names | chosen | {"dataset": self.dataset}


def variation(rng: Random) -> Variation:
    """One choice of names, constants, learner and shape."""
    return Variation(
        names={role: rng.choice(words) for role, words in _NAMES.items()},
        dataset=rng.choice(("digits", "wine", "breast_cancer", "iris")),
        learner=rng.randrange(len(_LEARNERS)),
        wrapped=rng.random() < 0.5,
        constants={"EPOCHS": rng.choice((20, 30, 40, 60)), "LEARNING_RATE": rng.choice((0.05, 0.1, 0.2)),
                   "DECAY": rng.choice((0.001, 0.01, 0.03)), "HIDDEN": rng.choice((16, 32, 48))},
        numbers=tuple(rng.uniform(0.1, 0.99) for _ in range(6)))


def _import_order(line: str) -> tuple[bool, str]:
    return line == "import lab", line.split()[1]
