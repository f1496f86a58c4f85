"""Effects of one cell on its kernel and on later cells, with and without a sandbox."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from labwright.record.schema.nodes import Cell
from labwright.sandbox.isolation import bubblewrap
from labwright.sandbox.job import Job
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks
from tests.sandbox.conftest import SETTINGS, DatasetStore, holds_eventually, run_alone, running_module
from tests.sandbox.hostile_study import ARMS, LEFT_RUNNING

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not bubblewrap.get_probed_isolation().between_cells,
        reason=f"no walls between cells here: {bubblewrap.get_probed_isolation().reason}",
    ),
]


@pytest.fixture(scope="module", params=["as we are", pytest.param("an ordinary user", marks=pytest.mark.bench)])
def said(request: pytest.FixtureRequest) -> Generator[dict[str, list[str]]]:
    """The outcome and output of each cell."""
    with running_module(
        "tests.sandbox.hostile_study", "required", ordinary=request.param == "an ordinary user"
    ) as text:
        yield json.loads(text)


def facts(lines: list[str], *names: str) -> dict[str, str]:
    """Return what a cell reported under these names."""
    return {name: line.removeprefix(f"{name} ") for name in names for line in lines if line.startswith(f"{name} ")}


@pytest.mark.parametrize("process", ["first", "zygote"])
def test_neither_kernel_nor_zygote_can_be_looked_into(said: dict[str, list[str]], process: str) -> None:
    closed = "mem environ fd/* root/experiment cwd/cells maps map_files/* task/*/mem pidfd_getfd".split()
    found = facts(said["hostile"], *(f"{process} {name}" for name in closed))
    assert found == {f"{process} {name}": "0" for name in closed}
    refused = facts(said["hostile"], *(f"{process} {name}" for name in ("ptrace", "process_vm_readv", "setns")))
    assert len(refused) == 3 and set(refused.values()) <= {"EPERM", "EACCES"}


def test_no_wall_can_be_taken_down(said: dict[str, list[str]]) -> None:
    acts = ("umount folder", "umount tmp", "mount", "remount", "new mounts")
    assert facts(said["hostile"], *acts) == dict.fromkeys(acts, "EPERM")
    assert facts(said["hostile"], "new user")["new user"] in ("EPERM", "ENOSPC")
    assert facts(said["hostile"], "own capabilities", "inherited capabilities") == {
        "own capabilities": str(["0" * 16] * 5),
        "inherited capabilities": "5",
    }


def test_what_is_not_of_a_cell_is_not_there_for_it(said: dict[str, list[str]]) -> None:
    assert facts(said["hostile"], "connection", "scratch", "sockets", "cells") == {
        "connection": "[]",
        "scratch": "['job.json']",
        "sockets": "0",
        "cells": "['cells', 'digits__hostile']",
    }
    assert facts(said["hostile"], "shared", "inputs", "job", "rename") == {
        "shared": "EROFS",
        "inputs": "EROFS",
        "job": "EROFS",
        "rename": "EBUSY",
    }


def test_no_system_call_reaches_beyond_the_namespaces(said: dict[str, list[str]]) -> None:
    found = facts(said["hostile"], "family 40", "family 38", "uring", "keys", "lease")
    assert found == {"family 40": "EAFNOSUPPORT", "family 38": "EAFNOSUPPORT"} | dict.fromkeys(
        ("uring", "keys", "lease"), "ENOSYS"
    )


def test_devices_of_the_machine_cannot_be_changed(said: dict[str, list[str]]) -> None:
    assert facts(said["hostile"], "device", "input") == {"device": "EROFS", "input": "EROFS"}


@pytest.mark.parametrize("arm", ["other", "honest", "last"])
def test_a_later_cell_finds_nothing_of_an_earlier_one(said: dict[str, list[str]], arm: str) -> None:
    assert facts(said[arm], "places", "memory", "segment", "abstract", "set", "processes", "attributes") == {
        "places": "[]",
        "memory": "[False, False]",
        "segment": "ENOENT",
        "abstract": "ECONNREFUSED",
        "set": "True",
        "processes": "3",
        "attributes": "[]",
    }
    assert facts(said[arm], "locks") == {"locks": "[]"}
    assert facts(said[arm], "connections", "loopback", "own port", "terminal") == {
        "terminal": "2",
        "connections": "[]",
        "loopback": "0",
        "own port": "None",
    }


def test_every_cell_but_the_one_that_kills_its_kernel_again_is_measured(said: dict[str, list[str]]) -> None:
    assert {arm: said[arm][0] for arm in ARMS} == {**dict.fromkeys(ARMS, "measured"), "deadly": "failed"}
    assert said["deadly"][1].startswith("died: the process was killed by SIGKILL")


def test_nothing_of_it_is_left_running(said: dict[str, list[str]]) -> None:
    def left() -> list[str]:
        found: list[str] = []
        for one in Path("/proc").iterdir():
            with suppress(OSError):
                if one.name.isdigit() and LEFT_RUNNING.encode() in (one / "cmdline").read_bytes():
                    found.append(one.name)
        return found

    assert said and holds_eventually(lambda: not left())


LINKS = """
import os
import lab

def run(cell):
    os.symlink(os.path.dirname(os.environ["LAB_JOB"]), "inputs")
    lab.result("seen", lab.shared("files", lambda: int(os.path.exists("inputs/connection.json"))))

lab.measure(run)
"""


async def test_a_link_in_place_of_inputs_shows_nothing_of_the_kernel(
    store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.sandbox.workspace.MAX_COPIED_BYTES", 0)  # so a cell gets no copy of its inputs
    settings = SETTINGS.model_copy(update={"isolation": "required"})
    cells = cell_tasks((Cell(dataset="digits", arm="x"),))
    job = Job("links", tmp_path / "job", {"experiment.py": LINKS}, cells=cells, datasets=("digits",), timeout=60.0)
    outcome = await run_alone(store, job, settings=settings, cache=tmp_path / "cache")
    assert [one.value for one in outcome.measurements] == [0.0], outcome.cells


TELLS = """
import os, time
import lab

def run(cell):
    lab.result("kernel", os.getppid())
    with open("/proc/self/coredump_filter") as file:
        lab.result("coredump_filter", int(file.read(), 16))
    if cell.arm == "coredump_filter":
        with open(f"/proc/{os.getppid()}/coredump_filter", "w") as file:
            file.write("0x7f")
    if cell.arm == "full":
        for i in range(40):
            open(f"/dev/shm/{i}", "wb").write(b"x" * 50_000_000)
            time.sleep(0.1)
    if cell.arm == "crowded":
        for i in range(40):
            open(f"/tmp/{i}", "wb").write(b"x" * 20_000_000)
            time.sleep(0.1)

lab.measure(run)
"""


async def tell(
    store: DatasetStore, place: Path, settings: SandboxSettings, *arms: str, value: str = "kernel"
) -> dict[str, tuple[str, Any]]:
    """Return outcome, reason and a value (by default the parent) of cells of these arms, two levels each, in turn."""
    cells = cell_tasks(Cell(dataset="digits", arm=arm, level=level) for level in "ab" for arm in arms)
    job = Job("tells", place / "job", {"experiment.py": TELLS}, cells=cells, datasets=("digits",), timeout=200.0)
    outcome = await run_alone(store, job, settings=settings, cache=place / "cache")
    kernels = {one.condition: one.value for one in outcome.measurements if one.name == value}
    return {
        str(line.cell.condition): (line.outcome + line.why[:7], kernels.get(line.cell.condition))
        for line in outcome.cells
    }


async def test_without_walls_cells_of_different_arms_share_no_kernel(store: DatasetStore, tmp_path: Path) -> None:
    found = await tell(store, tmp_path, SETTINGS, "x", "y")
    kernels = {name: kernel for name, (_, kernel) in found.items()}
    assert kernels["x@a"] == kernels["x@b"] != kernels["y@a"] == kernels["y@b"]


@pytest.mark.bench
async def test_what_a_cell_keeps_in_memory_and_on_disk_counts(store: DatasetStore, tmp_path: Path) -> None:
    settings = SandboxSettings(grace=0.5, isolation="required", memory_gb=0.6, disk_gb=0.3)
    found = await tell(store, tmp_path, settings, "full", "crowded", "x")
    assert {name: became for name, (became, _) in found.items()} == {
        "full@a": "failedmemory:",
        "full@b": "failedmemory:",
        "crowded@a": "failedother: ",
        "crowded@b": "failedother: ",
        "x@a": "measured",
        "x@b": "measured",
    }


async def test_a_setting_of_the_zygote_does_not_reach_later_cells(store: DatasetStore, tmp_path: Path) -> None:
    """Any process of the same user can change it, and cells inherit it."""
    settings = SandboxSettings(grace=0.5, isolation="required")
    found = await tell(store, tmp_path, settings, "coredump_filter", "x", value="coredump_filter")
    assert {became for became, _ in found.values()} == {"measured"}
    assert len({seen for _, seen in found.values()}) == 1, found
