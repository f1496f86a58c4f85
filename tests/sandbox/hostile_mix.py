"""Run hostile cells, which carry out all attacks between them, together with as many honest ones.

`python -m tests.sandbox.hostile_mix PLACE ISOLATION SEED` measures the honest cells alone, then all of them, and prints
the results as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import psutil

from labwright.record.schema.nodes import Cell
from labwright.sandbox.datasets import materialise
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks
from tests.sandbox.conftest import DatasetStore, holds_eventually, run_alone

CELLS = 6
"""Number of hostile cells, and of honest ones."""
FOLDER_ACTS = """
# None writes through its own link: without a sandbox that would change the user's files.
import os, shutil

def renames(here):
    os.rename(here, here + ".away")

def links(here):
    os.rename(here, here + ".away")
    os.symlink(VICTIM, here)

def replaces(here):
    shutil.rmtree(here)
    open(here, "w").write("no folder")

def removes(here):
    shutil.rmtree(here)

def locks(here):
    os.chmod(".", 0)

def links_above(here):
    os.rename(os.path.dirname(here), os.path.dirname(here) + ".away")
    os.symlink(VICTIM, os.path.dirname(here))

def nests(here):
    for _ in range(300):
        os.mkdir("d")
        os.chdir("d")

FOLDER_ACTS = {act.__name__: act for act in (renames, links, replaces, removes, locks, links_above, nests)}
"""
"""Attacks on the working folder (`here`) as programs; `VICTIM` is a file tree of the host."""
_ACTS = """
import ctypes, json, random, resource, signal, subprocess, sys, time
import numpy as np
import lab

def plants(here):
    for name in ("submissions", "arrays", "sealed", "measurements.jsonl", "submissions.jsonl", "checkpoints"):
        if not os.path.lexists(name):
            os.symlink(os.path.join(VICTIM, name), name)

def forges(here):
    about = {"dataset": "digits", "split": "validation", "condition": "honest1", "kind": "predictions"}
    for name, text in (("submissions.jsonl", json.dumps({"file": "0" * 20 + ".npz", **about}) + "\\n"),
                       ("measurements.jsonl", json.dumps({"name": "norm", "value": 9.0, **about}) + "\\n[1, {")):
        os.write(os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW), text.encode())

def patches(here):
    np.zeros = np.random.default_rng = lab.submit = lab.result = json.dumps = None
    os.environ.clear()

def litters(here):
    for place in (TMP, CACHE, os.path.dirname(here), "/dev/shm"):
        if os.path.realpath(place) != VICTIM:
            os.symlink(VICTIM, os.path.join(place, f"left-{os.getpid()}"))

def daemons(here):
    if os.fork() == 0:
        os.setsid()
        for _ in range(3):
            subprocess.Popen(["sh", "-c", "setsid sh -c 'trap \\"\\" TERM INT HUP; sleep SECONDS' &"],
                             start_new_session=True)
        os._exit(0)
    time.sleep(0.1)

def forks(here):
    os.fork()

def garbles(here):
    for descriptor in range(3, 64):
        for text in (b"[]\\n", b'{"end": 3}\\n', b'{"shared": "' + b"a" * 40 + b'"}\\n', b"\\xff{\\n"):
            try:
                os.write(descriptor, text)
            except OSError:
                pass

def floods(here):
    print("x\\ud800" * 300_000)

def sets(here):
    for pid in (os.getpid(), os.getppid()):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (32, 32))
        os.setpriority(os.PRIO_PROCESS, pid, 3)

def raises(here):
    raise type("Odd" * 1000, (Exception,), {"__str__": lambda self: 1 / 0})()

def exits(here):
    os._exit(3)

def crashes(here):
    ctypes.string_at(0)

def kills(here):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(30)

def ends(here):
    os.kill(os.getppid(), signal.SIGTERM)

def breaks_out(here):
    if here.startswith("/experiment/"):  # otherwise nothing is guaranteed
        for path in (VICTIM, os.path.join(VICTIM, "kept"), "/etc/passwd", sys.executable, lab.__file__):
            try:
                open(path, "a").write("x")
            except OSError:
                pass
        os.kill(-1, signal.SIGKILL)

TMP, CACHE = os.environ["TMPDIR"], os.environ["XDG_CACHE_HOME"]
ACTS = FOLDER_ACTS | {act.__name__: act for act in (
    plants, forges, patches, litters, daemons, forks, garbles, floods, sets, raises, exits, crashes, kills, ends,
    breaks_out)}

def honest(cell):
    data = lab.data(cell.dataset)
    x, y = data.train.x.reshape(len(data.train.x), -1), data.train.y
    weights = np.random.normal(size=(x.shape[1], 10)) + random.random()
    for _ in range(20):
        scores = np.exp(x @ weights - (x @ weights).max(1, keepdims=True))
        weights -= 0.1 * x.T @ (scores / scores.sum(1, keepdims=True) - np.eye(10)[y]) / len(x)
    lab.result("norm", float(np.linalg.norm(weights)))
    valid = data.validation.x
    lab.submit(split="validation", predictions=(valid.reshape(len(valid), -1) @ weights).argmax(1))

def run(cell):
    here = os.getcwd()
    if cell.arm.startswith("honest"):
        return honest(cell)
    for act in TAKES[cell.arm]:
        try:
            ACTS[act](here)
        except OSError:
            pass

lab.measure(run)
"""
ACTS = (
    *("renames", "links", "replaces", "removes", "locks", "links_above", "nests", "plants"),
    *("forges", "patches", "litters", "daemons", "forks", "garbles", "floods", "sets"),
)
ENDING_ACTS = ("raises", "exits", "crashes", "kills", "ends", "breaks_out")


def deal_acts(rng: Random) -> dict[str, list[str]]:
    """Return the acts of each hostile cell: all of `ACTS` once, two or three to a cell, then one of `ENDING_ACTS`."""
    acts, ends = rng.sample(ACTS, len(ACTS)), rng.sample(ENDING_ACTS, len(ENDING_ACTS))
    return {f"hostile{n}": [*acts[n::CELLS], ends[n]] for n in range(CELLS)}


@dataclass(frozen=True)
class HostileResult:
    """The results of one seed."""

    acts: dict[str, list[str]]
    outcomes: dict[str, str]
    alone: dict[str, list[str]]
    """Result of each honest cell without hostile ones."""
    beside: dict[str, list[str]]
    victim_unchanged: bool
    orphans: int
    """Processes that only the next start of the run ends."""
    left: list[str]
    """Command lines of processes that remain after that."""


def snapshot_tree(folder: Path) -> dict[str, tuple[int, float, bytes]]:
    """Return mode, time and content of a folder and everything below it."""
    found = {"": folder} | {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {
        name: (path.lstat().st_mode, path.lstat().st_mtime, path.read_bytes() if path.is_file() else b"")
        for name, path in found.items()
    }


def run_mix(place: Path, isolation: str, seed: int) -> HostileResult:
    """Measure the honest cells alone, then all cells."""
    materialise("digits", views=place / "views", labels=place / "labels", seed=1)
    victim, rng = place / "victim", Random(seed)
    for name in ("submissions", "arrays", "sealed", "checkpoints"):
        (victim / name).mkdir(parents=True)
        (victim / name / "kept").write_text("the user's own")
    for name in ("kept", "measurements.jsonl", "submissions.jsonl"):
        (victim / name).write_text("the user's own")
    before, sleep = snapshot_tree(victim), f"72.{os.getpid()}"
    takes = deal_acts(rng)
    program = f"VICTIM, TAKES = {str(victim)!r}, {takes!r}\n{FOLDER_ACTS}{_ACTS}".replace("SECONDS", sleep)
    honest = [f"honest{number}" for number in range(CELLS)]
    alone = _measure(place / "alone", place, program, honest, isolation)
    both = [arm for pair in zip(takes, honest, strict=True) for arm in pair]
    mixed = _measure(place / "mixed", place, program, both, isolation)
    orphans = len(kill_orphans(place / "cache"))
    holds_eventually(lambda: not _find_left_processes(place, sleep))
    return HostileResult(
        takes,
        {line.cell.arm: f"{line.outcome} {line.why}" for line in mixed.cells},
        _read_digits(alone),
        _read_digits(mixed),
        snapshot_tree(victim) == before,
        orphans,
        _find_left_processes(place, sleep),
    )


def _measure(folder: Path, place: Path, program: str, arms: Sequence[str], isolation: str) -> JobOutcome:
    settings = SandboxSettings.model_validate({"isolation": isolation, "grace": 0.5})
    cells = tuple(Cell(dataset="digits", arm=arm) for arm in arms)

    job = Job(
        name="mixed",
        folder=folder,
        source={"experiment.py": program},
        cells=cell_tasks(cells, expected={cell: float(len(cells) - at) for at, cell in enumerate(cells)}),
        datasets=("digits",),
        timeout=900.0,
        may_skip_cells=False,
    )
    store = DatasetStore(place / "views", place / "labels", place / "cache")
    return asyncio.run(run_alone(store, job, settings=settings))


def _read_digits(outcome: JobOutcome) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in outcome.measurements:
        if one.condition.startswith("honest"):
            found.setdefault(one.condition, []).append(f"{one.name} {one.split} {one.grade} {one.value!r}")
    return {arm: sorted(values) for arm, values in found.items()}


def _find_left_processes(place: Path, sleep: str) -> list[str]:
    """Return the command lines of cell processes, except zombies."""
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            words = process.cmdline()
            ours = process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE
            cache = process.environ().get("XDG_CACHE_HOME", "")
            if not ours and (any(sleep in word for word in words) or cache.startswith(str(place))):
                found.append(" ".join(words))
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(run_mix(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))))
