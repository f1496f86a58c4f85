"""The environment fingerprint in a cell's key covers all settings, variables and mounts that reach a cell, or this file
says why not. A new setting fails here until it is classified, since results could be reused wrongly otherwise."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labwright.sandbox import packages
from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.bubblewrap import (
    KERNEL_SIDE,
    IsolationStatus,
    KernelConfig,
    KernelStartOptions,
    build_kernel_sandbox,
)
from labwright.sandbox.isolation.interpreter import InterpreterInfo, inspect_interpreter
from labwright.sandbox.isolation.processes import ScratchFolder
from labwright.sandbox.packages import compute_environment_fingerprint
from labwright.sandbox.settings import SandboxSettings

IN_GROUND: dict[str, Any] = {
    "python": "FOLDER/python",
    "readable": ("FOLDER",),
    "isolation": "none",
    "threads": 3,
    "deterministic": True,
    "gpus_per_node": 2,
}
"""Setting -> a different value that changes the fingerprint."""
ELSEWHERE = {
    "network": "of the key itself",
    "pretrained": "of the key itself",
    "scorers": "of the key itself, by content",
    "packages": "their lock is in the ground",
    "allowed": "what is chosen of it is of the plan, and as above",
    "device": "by the GPUs of the ground",
    "gpus": "by the GPUs of the ground",
}
LIMITS = (
    "timeout grace start_timeout memory_gb disk_gb tasks checkpoint_bytes artifact_bytes scorer_timeout "
    "data_bytes gpu_wait gpu_free_gb"
).split()
"""Settings that can stop or reject an experiment, but do not change the values of a successful one."""
WHERE = ("executor", "ray", "store", "slots_per_gpu")
"""Settings that decide where and when a cell runs."""
GPU = (GpuDevice("GPU-1", "H100", 0, 0, 80 * 10**9),)


def settings_with(folder: Path, name: str) -> SandboxSettings:
    """Return settings with one value changed."""
    value = IN_GROUND[name]
    texts = {"FOLDER": str(folder), "FOLDER/python": str(folder / "python")}
    found = texts.get(value, value) if isinstance(value, str) else value
    return SandboxSettings(isolation="auto").model_copy(update={name: (str(folder),) if name == "readable" else found})


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that code is isolated: the fingerprint only depends on whether it is."""
    monkeypatch.setattr(packages, "get_probed_isolation", lambda: IsolationStatus(is_on=True, between_cells=True))


def test_every_setting_is_in_the_key_or_changes_no_value() -> None:
    sorted_out = {*IN_GROUND, *ELSEWHERE, *LIMITS, *WHERE}
    assert set(SandboxSettings.model_fields) == sorted_out, (
        "a setting of the sandbox that is not sorted: put what reaches a cell into its key (sandbox/packages.py)"
    )


@pytest.mark.parametrize("name", IN_GROUND)
def test_a_setting_that_reaches_a_cell_changes_its_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = inspect_interpreter(sys.executable)

    def found(python: str) -> InterpreterInfo:
        return ours if python == sys.executable else replace(ours, version="3.12.0")

    monkeypatch.setattr(packages, "inspect_interpreter", found)
    assert compute_environment_fingerprint(settings_with(tmp_path, name), GPU) != compute_environment_fingerprint(
        SandboxSettings(isolation="auto"), GPU
    )


def test_what_lies_in_a_readable_folder_is_in_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    (folder / "package").mkdir(parents=True)
    module, settings = folder / "package" / "module.py", SandboxSettings(readable=(str(folder),))
    module.write_text("LR = 0.1\n")
    (tmp_path / "other.py").write_text("X = 1\n")
    (folder / "link.py").symlink_to(tmp_path / "other.py")
    seen = {compute_environment_fingerprint(settings, ())}
    assert compute_environment_fingerprint(settings, ()) in seen

    def changed() -> bool:
        found = compute_environment_fingerprint(settings, ())
        known = found in seen
        seen.add(found)
        return not known

    state = module.stat()
    module.write_text("LR = 0.2\n")  # same size, same times
    os.utime(module, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert changed()
    module.rename(module.with_name("renamed.py"))
    assert changed()
    (folder / ".hidden").touch()
    assert changed()
    (tmp_path / "other.py").write_text("X = 2\n")
    assert changed()
    (folder / "empty").mkdir()
    assert changed()
    (folder / "package" / "__pycache__").mkdir()
    (folder / "package" / "__pycache__" / "renamed.pyc").touch()
    assert not changed(), "Python itself writes it, without isolation"


def test_no_folder_is_mounted_that_is_in_no_key(tmp_path: Path) -> None:
    settings = SandboxSettings(readable=(str(tmp_path / "own"),))
    config = KernelConfig(settings, IsolationStatus(is_on=True), tmp_path / "cache")
    scratch = ScratchFolder()
    try:
        found = build_kernel_sandbox(
            config,
            KernelStartOptions(readable=(tmp_path / "view",), packages=tmp_path / "packages"),
            folder=tmp_path / "cell",
            folder_inside=tmp_path / "seen",
            scratch=scratch,
        )
    finally:
        scratch.remove()
    keyed = {*inspect_interpreter(settings.python).trees, tmp_path / "own", tmp_path / "packages"}
    assert set(found.environments) == keyed and found.mounts == () and found.devices == ()
    others = {path for path in (*found.readable, *found.writable) if not path.is_relative_to(scratch.root)}
    assert others == {KERNEL_SIDE, tmp_path / "view", tmp_path / "cache"}, (
        "a mount whose content is in no key: of data, models and packages the fingerprints are"
    )
