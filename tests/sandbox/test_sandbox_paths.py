"""Visibility in the sandbox depends only on paths; bubblewrap is not needed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event

import pytest

from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation import processes
from labwright.sandbox.isolation.bubblewrap import SandboxSpec, build_command, list_device_files, list_label_paths
from labwright.sandbox.isolation.interpreter import select_exposable
from labwright.sandbox.isolation.processes import ResourceUse, Watchdog, compute_limits, measure_unique_use
from labwright.sandbox.job import ExecutorError
from labwright.sandbox.settings import SandboxSettings


def test_no_tree_is_shown_that_holds_a_home_or_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    own = tmp_path / "home" / "me" / "conda"
    (own / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to(own)
    shown = select_exposable(
        [
            own,
            own / "lib",
            tmp_path / "home",
            tmp_path / "home" / "me",
            tmp_path / "link",
            Path("/"),
            Path("/etc"),
            Path("/usr/lib"),
            Path("relative"),
            tmp_path / "not there",
        ]
    )
    assert shown == (own, tmp_path / "link")


def test_labels_are_hidden_in_every_place_of_an_environment_and_in_caches_within_it(tmp_path: Path) -> None:
    hidden = (
        "lib/python3.12/site-packages/sklearn/datasets/data "
        "lib64/python3.12/site-packages/scipy/io/arff/tests pkgs envs share/nltk_data cache/hub"
    ).split()
    for name in (*hidden, "lib/python3.12/site-packages/torch", "cache/other"):
        (tmp_path / "env" / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    variables = {"HF_HOME": str(tmp_path / "env" / "cache" / "hub"), "TORCH_HOME": str(tmp_path / "elsewhere")}
    found = {path for path in list_label_paths([tmp_path / "env"], variables) if path.is_relative_to(tmp_path)}
    assert found == {tmp_path / "env" / name for name in hidden}


def test_the_devices_of_a_lease_and_no_others_are_bound(tmp_path: Path) -> None:
    assert list_device_files(()) == ()
    found = list_device_files((GpuDevice(uuid="GPU-1", name="one", index=0, minor=3, memory_bytes=1),))
    assert Path("/dev/nvidia3") in found and Path("/dev/nvidiactl") in found and Path("/dev/nvidia0") not in found
    (tmp_path / "nvidia3").touch()
    words = build_command(["true"], SandboxSpec(tmp_path, devices=(tmp_path / "nvidia3", tmp_path / "not there")))
    assert words[words.index("--dev-bind") + 1] == str(tmp_path / "nvidia3") and words.count("--dev-bind") == 1


def test_a_disturbed_reading_of_memory_kills_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While processes start or end, shared memory is counted more than once; the next reading is right."""
    limits = compute_limits(SandboxSettings(memory_gb=1e-6), slots=1)
    watchdog = Watchdog(os.getpid(), limits, folders=(), shared=tmp_path, kill_all=lambda: None)
    readings = iter([900, 500, 2000, 700, 800, 900])

    def reading(*_: object) -> ResourceUse:
        return ResourceUse(0, next(readings), 400)

    monkeypatch.setattr(processes, "measure_unique_use", reading)
    assert watchdog.check_use() is None
    failure = watchdog.check_use()
    assert failure is not None and failure.kind == "memory"


def test_many_small_processes_do_not_delay_the_reading_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def use(chosen: Iterable[int]) -> ResourceUse:
        return ResourceUse(0, 1000 if 7 in chosen else 1, 0)

    def text(path: Path) -> str:
        read.append(int(path.parent.name))
        return f"Pss_Anon: {9 if read[-1] == 7 else 1} kB"

    monkeypatch.setattr(processes, "measure_use", use)
    monkeypatch.setattr(Path, "read_text", text)
    assert measure_unique_use(range(50), 8000).private == 9217
    assert read == [7]


def test_only_what_we_marked_in_a_folder_of_our_own_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # it is one for all processes of a user
    monkeypatch.setattr(processes, "get_runtime_folder", lambda: tmp_path / "ours")
    held = processes.ScratchFolder()
    for name in (f"{processes.NAME_PREFIX}dead", f"{processes.NAME_PREFIX}young", "lab-notes", "gpu-1.lock"):
        (held.root.parent / name).mkdir()
    (tmp_path / f"{processes.NAME_PREFIX}elsewhere").mkdir()
    for path in (
        held.root,
        *(held.root.parent / name for name in (f"{processes.NAME_PREFIX}dead", "lab-notes", "gpu-1.lock")),
    ):
        os.utime(path, (0, 0))
    processes.remove_stale()
    assert {path.name for path in held.root.parent.iterdir()} == {
        held.root.name,
        f"{processes.NAME_PREFIX}young",
        "lab-notes",
        "gpu-1.lock",
    }
    assert (tmp_path / f"{processes.NAME_PREFIX}elsewhere").exists()
    held.remove()


def test_a_place_that_others_may_write_to_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "get_runtime_folder", lambda: tmp_path / "ours")
    (tmp_path / "ours").mkdir(mode=0o777)
    (tmp_path / "ours").chmod(0o777)
    for work in (processes.ScratchFolder, processes.remove_stale):
        with pytest.raises(
            ExecutorError, match=r"ours must be a folder that only you can access \(mode 700\): remove it"
        ):
            work()


def test_memory_is_checked_while_files_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counted, killed = Event(), Event()

    def count_for_ever(_: Path) -> int:
        counted.wait(20)
        return 0

    monkeypatch.setattr(processes, "count_bytes", count_for_ever)
    limits = compute_limits(SandboxSettings(memory_gb=1e-6), slots=1)
    watchdog = Watchdog(os.getpid(), limits, folders=(tmp_path,), shared=tmp_path, kill_all=killed.set)
    watchdog.start()
    try:
        assert killed.wait(20) and watchdog.failure is not None and watchdog.failure.kind == "memory"
    finally:
        counted.set()
