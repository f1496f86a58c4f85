"""Speed of experiments: timed with the resources of one, and only once per configuration."""

from __future__ import annotations

from pathlib import Path

from labwright.record.machine import ComputeRate
from labwright.sandbox.isolation.interpreter import measure_rate
from labwright.sandbox.settings import SandboxSettings

TERMS = ComputeRate(processor="p", cores=4, memory_bytes=10**9, threads=3, at_once=2)


def interpreter_that(folder: Path, does: str) -> SandboxSettings:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return SandboxSettings(python=str(path), threads=3)


def test_as_many_processes_as_experiments_are_timed_with_their_threads(tmp_path: Path) -> None:
    settings = interpreter_that(tmp_path, f'echo "$OMP_NUM_THREADS" >> {tmp_path}/ran; echo "[0.25, 1.5]"')
    found = measure_rate(TERMS, settings)
    assert (found.product_seconds, found.epoch_seconds, found.library) == (0.25, 1.5, "numpy")
    assert (tmp_path / "ran").read_text().split() == ["3", "3"]
    assert found.without_times == TERMS
