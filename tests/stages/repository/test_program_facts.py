"""What an author is told of a traced run, and what the offline model makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labwright.models.conversation import Conversation, ToolExchange
from labwright.models.offline.repository_author import answer_coder
from labwright.models.roles.repository import PartsInputs, ProposedParts
from labwright.record.schema.decisions import ToolSpec
from labwright.record.schema.repository import RepositoryCommand
from labwright.sandbox.repository import trace
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.stages.repository.authors import find_part_faults
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.repository.program_facts import find_metric_places, list_files_fact, list_functions, list_switches
from tests.repositories import FILES

slow = pytest.mark.slow
TINYFIT = RepositoryCommand(argv=("python", "train.py", "--seed", "{seed}"), metric="metrics.json:test.r2")
READ = ToolSpec("read", "Read a file.", {})
HAND_IN = ToolSpec("hand_in", "Hand in.", {})
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


def run_traced(folder: Path, files: dict[str, str], command: RepositoryCommand) -> trace.CallTrace:
    """Run a program in a process of its own and return its trace."""
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
        env=trace.add_hook({**os.environ, **trace.TRACE_VARIABLES, "OMP_NUM_THREADS": "1"}),
    )
    return trace.read_trace(folder)


def build_inputs(folder: Path, files: dict[str, str], command: RepositoryCommand) -> PartsInputs:
    code, found = index_code(files), run_traced(folder, files, command)
    return PartsInputs(
        functions=list_functions(code, found),
        switches=list_switches(code, command),
        metric_places=find_metric_places(code, command),
    )


def let_offline_model_work(inputs: PartsInputs, files: dict[str, str]) -> tuple[list[str], ProposedParts]:
    """Return the files that the offline model reads, in pieces of ten lines, and what it hands in."""
    exchanges: list[ToolExchange] = []
    while True:
        call = answer_coder(inputs, Conversation((READ, HAND_IN), tuple(exchanges)))
        if call.tool == "hand_in":
            return [one.call.arguments["path"] for one in exchanges], ProposedParts.model_validate(call.arguments)
        path, first = call.arguments["path"], call.arguments["first"]
        lines = files[path].splitlines(keepends=True)
        last = min(len(lines), first + 9)
        text = f"{path}, lines {first} to {last} of {len(lines)}:\n{''.join(lines[first - 1 : last])}"
        exchanges.append(ToolExchange(call, text + "[read on]" * (last < len(lines))))


@slow
def test_an_author_is_told_what_ran_with_which_shapes(tmp_path: Path) -> None:
    inputs = build_inputs(tmp_path, FILES, TINYFIT)
    texts = {one.symbol: str(one) for one in inputs.functions}
    tilt = "tinyfit/features.py:tilt(x: array(600, 5)) -> list of 1: array(600), 1 calls from train.py:design"
    assert texts["tilt"] == tilt
    assert texts["banner"] == "tinyfit/report.py:banner(opts: Namespace) -> NoneType, 1 calls from train.py"
    assert {one.symbol: one.alike for one in inputs.functions if one.alike} == {"centre": ("x",)}
    assert [str(one) for one in inputs.switches] == ["--no-bend (train.py)"]
    assert inputs.metric_places == ("train.py:<module>",)


@slow
def test_the_offline_model_reads_switches_alternatives_and_what_keeps_a_shape(tmp_path: Path) -> None:
    inputs = build_inputs(tmp_path, FILES, TINYFIT)
    read, made = let_offline_model_work(inputs, FILES)
    assert {*read} == {"train.py", "tinyfit/features.py"}
    ways = {one.name: [way.what for way in one.ways] for one in made.parts}
    assert ways == {
        "bend": ["--no-bend", "bend returns zeros"],
        "centre": ["returns its argument x unchanged", "centre returns zeros"],
        **{name: [f"{name} returns zeros"] for name in ("tilt", "twist", "shift", "wobble")},
    }
    assert made.whole is not None and made.whole.what == "design returns zeros"
    for way in (*(way for one in made.parts for way in one.ways if way.edits), made.whole):
        assert all(apply_edit(FILES[one.path], one) != FILES[one.path] for one in way.edits) and way.edits
    code = index_code(FILES)
    assert list(find_part_faults(made, TINYFIT, code)) == []


@slow
def test_a_torch_model(tmp_path: Path) -> None:
    files: dict[str, str] = {"train.py": TORCH.lstrip(), "parts.py": PARTS.lstrip()}
    command = RepositoryCommand(argv=("python", "train.py", "{seed}"), metric="m.json:acc")
    _, made = let_offline_model_work(build_inputs(tmp_path / "a", files, command), files)
    ways = {one.name: [way.what for way in one.ways] for one in made.parts}
    assert ways["Gate"] == ["returns its argument x unchanged", "Gate.forward returns zeros"] and "augment" in ways
    assert not {"log_scalar", "main_loss", "warm"} & ways.keys(), "they return no array"
    assert made.whole is not None and made.whole.what == "Net.forward returns zeros"


def test_what_a_trace_says_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / trace.TRACE_FOLDER).mkdir()
    (tmp_path / trace.TRACE_FOLDER / "trace-1.json").write_text("not json")
    (tmp_path / trace.TRACE_FOLDER / "trace-2.json").write_text(json.dumps({"functions": [{"path": 1}], "lines": []}))
    (tmp_path / trace.TRACE_FOLDER / "trace-3.json").symlink_to("/etc/passwd")
    assert trace.read_trace(tmp_path) == trace.CallTrace()
    assert list_functions(index_code(FILES), trace.CallTrace()) == ()


def test_the_map_has_the_functions_of_the_entry_script_wherever_it_is() -> None:
    texts = {
        "scripts/main.py": "from models import fit\n\ndef train():\n    fit()\n",
        "scripts/models.py": "def fit():\n    pass\n",
        "scripts/plot.py": "def draw():\n    pass\n",
    }
    command = RepositoryCommand(argv=("python", "scripts/main.py"), metric="stdout:r2 (.*)")
    lines = list_files_fact(index_code(texts), command).text.splitlines()
    assert lines[:2] == ["scripts/main.py (4 lines)", "  train()"]
    assert "scripts/plot.py (2 lines)" in lines and "  draw()" not in lines


def test_keys_that_are_true_are_switches_where_they_can_be_set() -> None:
    files = {
        "run.py": "import json, sys\ncfg = json.load(open('conf.json'))\n",
        "conf.json": json.dumps({"gate": True, "width": 4, "mix": {"twice": True}, "twice": True}, indent=1),
    }
    code = index_code(files)
    by_file = list_switches(code, RepositoryCommand(argv=("python", "run.py"), metric="m.json:a"))
    assert [(one.name, one.way.words) for one in by_file] == [("gate", ())], "twice occurs twice"
    assert apply_edit(files["conf.json"], by_file[0].way.edits[0]).startswith('{\n "gate": false,')
    by_word = list_switches(code, RepositoryCommand(argv=("python", "run.py", "seed=1"), metric="m.json:a"))
    assert {one.way.words for one in by_word} == {("gate=false",), ("mix.twice=false",), ("twice=false",)}
