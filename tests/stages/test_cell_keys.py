"""What a cell is taken over for is what it would measure: whatever its program reads is in its key.

Random trees are edited at random; before and after, a program that reads all that it can find measures, given the files
that a cell sees and no others. Equal keys must mean equal values.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from labwright.record.python_syntax import collect_reads
from labwright.record.schema.nodes import Cell
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, format_arm_path, select_visible_files
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job
from labwright.sandbox.settings import SandboxSettings
from labwright.search.stage_snapshot import StageSnapshot
from labwright.stages.nodes.node_cells import compute_cell_keys
from labwright.stages.run_context import RunContext
from labwright.stages.stage_report import build_stage_view
from tests.jobs import cell_tasks, run_job
from tests.stages.test_prompt_inputs import Story

Source = dict[str, str]
ARMS = ("plain", "mixup", "no-warmup")
"""Those of the story's plan."""
CELLS = tuple(Cell(dataset="digits", arm=arm, level=level) for arm in ARMS for level in ("n50", "n500"))

PARTS = (
    "import common; found.append(common.VALUE)",
    "found.append(json.load(open('config.json'))['rate'])",
    "found.append(open(f'data/{cell.level}.txt').read())",
    "found.append(importlib.import_module('arms.' + cell.arm.replace('-', '_')).VALUE)",
    "import colorsys; found.append(getattr(colorsys, 'VALUE', 'of the library'))",
    "import extra.more as more; found.append(more.VALUE)",
    "found.append(sorted(os.path.join(at, name) for at, _, names in os.walk('.') for name in names))",
    "found.append([open(name).read() for name in sorted(os.listdir('.')) if os.path.isfile(name)])",
    *(f"from arms import {arm.replace('-', '_')} as other; found.append(other.VALUE)" for arm in ARMS),
    "found.append(lab.artifact('net', arm='plain') if cell.arm == 'mixup' and READS else '')",
)
"""Statements of programs. What is not there is a value too."""

RUNNER = """
import importlib, json, os, runpy, sys, types

def run(folder, cell, left):
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    lab, runs = types.ModuleType("lab"), []
    lab.measure = lambda run, reads=None: runs.append(run)
    lab.artifact = lambda name, arm: left[arm]
    sys.modules["lab"] = lab
    runpy.run_path("experiment.py", run_name="__main__")
    return runs[0](types.SimpleNamespace(**cell))

for line in sys.stdin:
    if not os.fork():
        try:
            print(json.dumps(run(*json.loads(line))), flush=True)
        except BaseException as error:
            print(json.dumps(repr(error)), flush=True)
        os._exit(0)
    os.wait()
"""
"""Does what the driver in a kernel does, without one: in a process of its own, experiment.py as `__main__`, then its
function for one cell."""


def program(rng: Random) -> str:
    parts = rng.sample(PARTS, rng.randint(2, 6))
    reads = ', reads={"mixup": "plain"}' if rng.random() < 0.4 else ""
    tried = "\n".join(
        f"    try:\n        {part}\n    except Exception as error:\n        found.append(type(error).__name__)"
        for part in parts
    )
    return (
        f"import importlib, json, os, lab\nRATE = {rng.randint(0, 2)}\nREADS = {bool(reads)}\n"
        f"def run(cell):\n    found = [RATE, cell.arm, cell.level]\n{tried}\n    return found\n"
        f"lab.measure(run{reads})\n"
    )


PLACES = (
    "common.py",
    "config.json",
    "data/n50.txt",
    "data/n500.txt",
    "colorsys.py",
    "extra/more.py",
    "extra/__init__.py",
    "json.py.txt",
    "arms/__init__.py",
    "arms/helper.py",
    PLOTS_FILE,
    *(format_arm_path(arm) for arm in ARMS),
)


def text_of(path: str, rng: Random) -> str:
    value = rng.randint(0, 3)
    return (
        json.dumps({"rate": value})
        if path.endswith(".json")
        else (f"VALUE = {value}\n" if path.endswith(".py") else f"{value}\n")
    )


def tree(rng: Random) -> Source:
    return {path: text_of(path, rng) for path in PLACES if rng.random() < 0.6} | {ENTRY_FILE: program(rng)}


def edited(source: Source, rng: Random) -> Source:
    """The tree after one or two edits: a file is changed, is new, is gone, or moves. Half of them are to what some
    cells do not see."""
    after = dict(source)
    for _ in range(rng.randint(1, 2)):
        path = rng.choice(rng.choice((PLACES, PLACES[-1 - len(ARMS) :])))
        kind = rng.choice(("write", "write", "write", "delete", "move", "program"))
        if kind == "program" and rng.random() < 0.3:
            after[ENTRY_FILE] = program(rng)
        elif kind == "write":
            after[path] = text_of(path, rng)
        elif path in after:
            text = after.pop(path)
            if kind == "move":
                after[rng.choice(PLACES)] = text
    return after


class Driver:
    """Measures cells, each in a fresh process with the files that it sees; what it reads goes first."""

    def __init__(self, folder: Path) -> None:
        self._places = (folder / str(n) for n in itertools.count())
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", RUNNER], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def measure(self, cell: Cell, source: Source) -> object:
        reads = collect_reads(source[ENTRY_FILE]) or {}
        read, folder = reads.get(cell.arm), next(self._places)
        left = {read: json.dumps(self.measure(cell.model_copy(update={"arm": read}), source))} if read else {}
        for path, text in select_visible_files(source, cell.arm, arms=ARMS, reads=reads).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([str(folder), cell.model_dump(), left]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=600)


@dataclass
class Found:
    """Cells of edited trees: how many would be taken over, and how many of those wrongly."""

    taken: int = 0
    wrong: list[str] = field(default_factory=list[str])
    changed: int = 0
    """Those that measure something else after the edits."""


def held_against(
    keys: Callable[[Source], Mapping[Cell, str]], trees: list[tuple[Source, Source]], values: list[dict[Cell, bool]]
) -> Found:
    found = Found()
    for case, ((before, after), same) in enumerate(zip(trees, values, strict=True)):
        old, new = keys(before), keys(after)
        for cell, equal in same.items():
            found.changed += not equal
            found.taken += old[cell] == new[cell]
            if old[cell] == new[cell] and not equal:
                found.wrong.append(f"case {case}: {cell}")
    return found


@pytest.fixture
def bench(tmp_path: Path) -> RunContext:
    return Story(tmp_path / "run").bench


def view_of(bench: RunContext) -> StageSnapshot:
    return build_stage_view(bench, "preliminary")


@pytest.mark.parametrize("cases", [10, pytest.param(200, marks=pytest.mark.bench)])
@pytest.mark.slow
def test_what_would_be_taken_over_equals_what_would_be_measured(cases: int, bench: RunContext, tmp_path: Path) -> None:
    rng, view, driver = Random(cases), view_of(bench), Driver(tmp_path)
    trees, values = list[tuple[Source, Source]](), list[dict[Cell, bool]]()
    for _ in range(cases):
        before = tree(rng)
        after = edited(before, rng)
        trees.append((before, after))
        values.append(
            {cell: driver.measure(cell, before) == driver.measure(cell, after) for cell in rng.sample(CELLS, 3)}
        )
    driver.close()

    def keys(source: Source) -> Mapping[Cell, str]:
        return compute_cell_keys(CELLS, source, arms=ARMS, context=bench, view=view)

    def forgetful(source: Source) -> Mapping[Cell, str]:
        return keys({name: text for name, text in source.items() if name.endswith(".py")})

    found = held_against(keys, trees, values)
    assert found.wrong == []
    assert found.taken >= cases // 5 and found.changed >= cases // 5, "both happen"
    assert held_against(forgetful, trees, values).wrong, "a key without the files that code opens is caught"


LISTING = """
import hashlib, os, lab
def run(cell):
    for at, _, names in sorted(os.walk(".")):
        for name in sorted(names):
            if name.endswith((".py", ".txt", ".json")) and name != "stdout.txt":
                place = os.path.join(at, name)
                print(place, hashlib.sha256(open(place, "rb").read()).hexdigest())
    data = lab.data(cell.dataset)
    lab.submit(split="validation", predictions=[0] * len(data.validation.x))
    lab.submit(split="test", predictions=[0] * len(data.test.x))
lab.measure(run)
"""


@pytest.mark.slow
def test_in_kernels_a_cell_finds_the_files_of_its_key_and_no_others(bench: RunContext, tmp_path: Path) -> None:
    materialise("digits", views=tmp_path / "views", labels=tmp_path / "labels", seed=1)
    cells = tuple(Cell(dataset="digits", arm=arm) for arm in ("plain", "no-warmup"))
    before = {
        ENTRY_FILE: LISTING,
        "common.py": "",
        "data/more.txt": "1",
        "arms/mixup.py": "",
        "arms/no_warmup.py": "",
        PLOTS_FILE: "",
    }
    after = before | {"arms/no_warmup.py": "VALUE = 1\n", "arms/mixup.py": "VALUE = 1\n", PLOTS_FILE: "# other\n"}

    async def listed() -> list[dict[Cell, str]]:
        executor = LocalExecutor(
            1,
            tmp_path / "views",
            labels=tmp_path / "labels",
            cache=tmp_path / "cache",
            settings=SandboxSettings(grace=0.5, isolation="none"),
        )
        try:
            return [await one(executor, name, source) for name, source in (("before", before), ("after", after))]
        finally:
            await executor.close()

    async def one(executor: LocalExecutor, name: str, source: Source) -> dict[Cell, str]:
        outcome = await run_job(
            executor,
            Job(name=name, folder=tmp_path / name, source=source, cells=cell_tasks(cells), arms=ARMS, timeout=120.0),
        )
        assert [line.outcome for line in outcome.cells] == ["measured"] * len(cells), outcome
        return {cell: (tmp_path / name / "cells" / cell.name / "stdout.txt").read_text() for cell in cells}

    first, second = asyncio.run(listed())
    view = view_of(bench)
    old, new = (compute_cell_keys(cells, source, arms=ARMS, context=bench, view=view) for source in (before, after))
    plain, without = cells
    assert old[plain] == new[plain] and first[plain] == second[plain]
    assert old[without] != new[without] and first[without] != second[without]
    assert "no_warmup" in first[without] and not any(name in first[plain] for name in ("arms/", PLOTS_FILE))
    assert "common.py" in first[plain] and "data/more.txt" in first[plain]
