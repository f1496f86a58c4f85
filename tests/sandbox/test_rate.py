"""Speed of experiments: timed with the resources of one, and only once per configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labwright.agent.environment import measure_machine_rate
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import RunResumed, RunStarted
from labwright.record.machine import ComputeRate
from labwright.sandbox.isolation.interpreter import measure_rate
from labwright.sandbox.settings import SandboxSettings
from tests.stages.small_study import IDEA

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


@pytest.mark.parametrize("does", ["exit 1", "echo '[]'", "echo no numbers"])
def test_what_cannot_be_timed_is_not_known(tmp_path: Path, does: str) -> None:
    assert measure_rate(TERMS, interpreter_that(tmp_path, does)) == TERMS


def test_a_run_that_is_taken_up_keeps_its_rate_unless_a_new_one_comes() -> None:
    log = MemoryLog([RunStarted(idea=IDEA, settings={}, seed=1, version="0", model="m", rate=TERMS), RunResumed()])
    assert log.state.rate == TERMS
    log.append(RunResumed(rate=TERMS.model_copy(update={"moved": True, "cores": 1})))
    assert log.state.rate is not None and log.state.rate.moved and log.state.rate.cores == 1


@pytest.mark.slow
def test_a_machine_is_timed_once_and_again_on_other_terms_alone() -> None:
    settings = SandboxSettings(python=sys.executable)
    first = measure_machine_rate(settings, at_once=1)
    assert first is not None and not first.moved and first.threads == 1
    assert first.product_seconds and first.epoch_seconds and 0 < first.product_seconds < 10
    assert measure_machine_rate(settings, at_once=1, known=first) is None
    again = measure_machine_rate(settings.model_copy(update={"threads": 2}), at_once=1, known=first)
    assert again is not None and again.moved and again.threads == 2
