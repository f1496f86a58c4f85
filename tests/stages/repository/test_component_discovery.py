"""Component discovery: each kind is found once; decoys and plumbing never are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from labwright.stages.repository.component_discovery import ComponentInventory, discover_components

from labwright.record.schema.repository import RepositoryCommand
from labwright.sandbox.repository import trace
from labwright.sandbox.repository.git_mirror import apply_edit
from tests.repositories import FILES

pytestmark = pytest.mark.slow
TORCH = """
import json
import sys

import torch
from torch import nn

from parts import Gate, Net, augment, aux_loss, main_loss, log_scalar, warm

torch.manual_seed(int(sys.argv[1]))
net = Net()
x = torch.randn(32, 6)
y = (x[:, 0] > 0).long()
optim = torch.optim.SGD(net.parameters(), lr=warm(0.1, 0))
for step in range(4):
    out = net(augment(x))
    aux = aux_loss(out)
    loss = main_loss(out, y) + 0.1 * aux
    optim.zero_grad()
    loss.backward()
    optim.step()
    log_scalar("loss", loss.item())
json.dump({"acc": float((net(x).argmax(1) == y).float().mean())}, open("m.json", "w"))
"""
PARTS = """
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        return x * torch.sigmoid(self.lin(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.gate = Gate()
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.gate(self.first(x)))


def augment(x):
    return x + 0.1 * torch.randn_like(x)


def main_loss(out, y):
    return nn.functional.cross_entropy(out, y)


def aux_loss(out):
    return (out ** 2).mean()


def warm(lr, step):
    return lr * 0.5


def log_scalar(name, value):
    print(name, round(value, 3))
"""


HELD = """
import numpy as np


class Scale:
    def __call__(self, x):
        return x / x.std()


class Waves:
    def __call__(self, t):
        return np.stack([np.sin(t), np.cos(t)], -1)


class Block:
    def __init__(self):
        self.norm, self.wide = Scale(), np.ones((4, 4))
        self.first = Scale()
        self.second = Scale()

    def __call__(self, x):
        h = self.first(x)
        h = self.second(h) @ self.wide
        return x + h


class Model:
    def __init__(self):
        self.scaler = Scale()
        self.waves = Waves()
        self.blocks = [Block()]

    def __call__(self, batch):
        a = self.scaler(batch["a"])
        b = self.waves(batch["t"])
        x = np.concatenate([a, b], -1)
        for block in self.blocks:
            x = block(x)
        return {"out": x.sum(-1), "all": x}


class Shift:
    def __call__(self, batch):
        return {**batch, "a": batch["a"] + 0.1}


rng = np.random.default_rng(0)
batch = Shift()({"a": rng.normal(size=(5, 2)), "t": rng.normal(size=5)})
print(Model()(batch)["out"].mean())
"""


def read(folder: Path, files: dict[str, str], command: RepositoryCommand) -> ComponentInventory:
    """Return the inventory after a traced run in a separate process."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / trace.TRACE_FOLDER).mkdir()
    subprocess.run(
        [sys.executable, *command.build_argv(0)[1:]],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=600,
        env=trace.add_hook({**os.environ, **trace.build_trace_variables(), "OMP_NUM_THREADS": "1"}),
    )
    return discover_components(files, command, trace.read_trace(folder))


def test_a_linear_model_with_an_option_terms_and_decoys(tmp_path: Path) -> None:
    found = read(
        tmp_path, FILES, RepositoryCommand(argv=("python", "train.py", "--seed", "{seed}"), metric="metrics.json:a")
    )
    kinds = {part.name: part.kind for part in found.parts}
    assert kinds == {
        "tilt": "one of several",
        "twist": "one of several",
        "shift": "one of several",
        "wobble": "one of several",
        "bend": "optional",
        "centre": "shape-preserving",
    }
    ways = {part.name: [way.kind for way in part.mutations] for part in found.parts}
    assert ways["bend"] == ["option", "zero", "drop"] and ways["centre"] == ["identity", "zero"]
    assert [(one.name, one.kind) for one in found.rest] == [("banner", "decoy")]
    assert found.floors and found.floors[0].what == "design returns zeros"
    for part in found.parts:
        for way in part.mutations:
            for edit in way.edits:
                assert apply_edit(FILES[edit.path], edit) != FILES[edit.path]


def test_a_torch_model_its_losses_and_its_augmentation(tmp_path: Path) -> None:
    files = {"train.py": TORCH.lstrip(), "parts.py": PARTS.lstrip()}
    found = read(tmp_path, files, RepositoryCommand(argv=("python", "train.py", "{seed}"), metric="m.json:acc"))
    kinds = {part.name: part.kind for part in found.parts}
    assert kinds == {
        "Gate": "shape-preserving",
        "augment": "shape-preserving",
        "warm": "shape-preserving",
        "main_loss": "one of several",
        "aux_loss": "one of several",
    }
    assert "log_scalar" in {one.name for one in found.rest if one.kind == "decoy"}
    assert found.floors[0].what == "Net.forward returns zeros"


def test_what_objects_hold_what_is_joined_and_skip_connections(tmp_path: Path) -> None:
    found = read(
        tmp_path, {"train.py": HELD.lstrip()}, RepositoryCommand(argv=("python", "train.py"), metric="stdout:(.*)")
    )
    ways = {part.name: [way.kind for way in part.mutations] for part in found.parts}
    assert ways == {
        "Scale": ["identity", "zero"],
        "Waves": ["zero"],
        "Block": ["identity", "zero"],
        "Shift": ["identity"],
        "Block skip": ["drop"],
    }
    skip = next(part for part in found.parts if part.name == "Block skip")
    assert "        return h\n" in apply_edit(HELD.lstrip(), skip.mutations[0].edits[0])
    assert found.floors[0].what == "Model.__call__ returns zeros"


ADDED = """
import math

import torch
from torch import nn

torch.manual_seed(0)


class Norm(nn.Module):
    def forward(self, x):
        return x / x.std(-1, keepdim=True)


class Mix(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand_as(x)


class Wide(nn.Module):
    def forward(self, x):
        return x * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = Norm()
        self.mix = Mix()
        self.wide = Wide()
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.mix(self.ln(x))
        return x + self.drop(self.wide(self.ln(x)))


def get_lr(it):
    return 0.1 * 0.5 * (1.0 + math.cos(math.pi * it / 10))


def half(lr, it):
    return lr * 0.5


net = nn.Sequential(nn.Linear(4, 4), Block(), nn.Linear(4, 1))
print("first weight", float(net[0].weight[0, 0]))
optim = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(16, 4)
y = x[:, :1] * 2
for it in range(10):
    optim.param_groups[0]["lr"] = half(get_lr(it), it)
    loss = ((net(x) - y) ** 2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
print("first weight", float(net[0].weight[0, 0]))
"""
"""Prints the first weight before and after training."""


def test_what_is_added_is_told_from_what_that_is_called_with_and_a_count_is_no_value(tmp_path: Path) -> None:
    found = read(
        tmp_path, {"train.py": ADDED.lstrip()}, RepositoryCommand(argv=("python", "train.py"), metric="stdout:(.*)")
    )
    ways = {part.name: [way.kind for way in part.mutations] for part in found.parts}
    assert ways["Norm"] == ["identity", "zero"] and ways["Mix"] == ways["Wide"] == ["zero", "identity"]
    assert (
        "get_lr" not in ways
        and next(part for part in found.parts if part.name == "half").mutations[0].what
        == "returns its argument lr unchanged"
    )


def test_where_nothing_is_learnt_the_weights_are_those_of_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ADDED.lstrip())

    def count_weights(env: dict[str, str]) -> int:
        ran = subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
            env=trace.add_hook({**os.environ, **env}),
        )
        return len(set(ran.stdout.splitlines()))

    assert (count_weights(trace.build_no_training_variables()), count_weights({})) == (1, 2)
    assert trace.add_hook({"PYTHONPATH": "src"}) == {"PYTHONPATH": "src"}
    assert (
        trace.add_hook({"PYTHONPATH": "src", **trace.build_trace_variables()})["PYTHONPATH"]
        == f"{trace.HOOK_FOLDER}:src"
    )


def test_what_a_trace_says_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / trace.TRACE_FOLDER).mkdir()
    (tmp_path / trace.TRACE_FOLDER / "trace-1.json").write_text("not json")
    (tmp_path / trace.TRACE_FOLDER / "trace-2.json").write_text(json.dumps({"functions": [{"path": 1}], "lines": []}))
    (tmp_path / trace.TRACE_FOLDER / "trace-3.json").symlink_to("/etc/passwd")
    assert trace.read_trace(tmp_path) == trace.CallTrace()
    assert (
        discover_components(
            FILES, RepositoryCommand(argv=("python", "train.py"), metric="m.json:a"), trace.CallTrace()
        ).parts
        == ()
    )
