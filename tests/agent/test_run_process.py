"""What watches a run while it works: one look that fails is passed over, and whatever ends the watch ends the run."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labwright.agent import repository_setup, run_process
from labwright.agent.repository_setup import open_repository
from labwright.agent.run_process import FINDINGS, RunProcess, find_ending
from labwright.agent.settings import compose_settings
from labwright.record.control_files import send_command
from labwright.record.event_log import EventLog, RecordError
from labwright.record.events.repository_events import BaselineChecked, EnvironmentBuilt
from labwright.record.events.run_events import CommandReceived, RunStarted
from labwright.record.llm_calls import LLMCallStore
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import Cost, LLMQuestion
from labwright.search.scheduler import RunControl
from tests.models.examples import IDEA


def watched(folder: Path, monkeypatch: pytest.MonkeyPatch, looked: Callable[[int], float]) -> Any:
    """A process with nothing to do but to watch; `looked` tells what is free at each look at the disk, from 1."""
    looks = iter(range(1, 10_000))

    def free_gb(_: Path) -> float:  # of a file server, which may be away
        return looked(next(looks))

    monkeypatch.setattr(run_process, "read_free_gb", free_gb)
    monkeypatch.setattr("labwright.agent.run_process.POLL_SECONDS", 0.01)
    settings = SimpleNamespace(
        min_free_gb=0.0,
        time_limit=1e9,
        search=SimpleNamespace(grace=1.0),
        slurm=SimpleNamespace(margin_timeout=0.0, at_end="stop"),
    )
    RunFolder(folder).create_folders()
    log = EventLog(RunFolder(folder).events)
    log.append(RunStarted(idea=IDEA, settings={}, seed=0, version="0", model="scripted"))
    process = cast(Any, RunProcess)(RunFolder(folder), settings, log, frozenset(), None)
    process.signals, process.stop_reason, process.began, process.before = RunControl(), "", 0.0, 0.0
    return process


BENCH = cast(Any, SimpleNamespace(seconds_left=lambda: 1e9))


async def test_a_disk_that_is_away_for_a_moment_ends_no_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(number: int) -> float:
        if number in (2, 3):
            raise OSError(116, "Stale file handle")
        return 100.0

    process = watched(tmp_path / "run", monkeypatch, looked)
    process.main = asyncio.current_task()
    async with asyncio.timeout(100), process._watching(BENCH):
        await asyncio.sleep(0.2)
        send_command(process.folder.root, CommandReceived(verb="stop", text="please"))
        await process.signals.stop_event.wait()
    assert process.stop_reason == "stopped: please" and not list(process.folder.control.iterdir())


async def test_what_ends_the_watch_ends_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(number: int) -> float:
        if number == 3:
            raise ZeroDivisionError("a fault of ours")
        return 100.0

    process = watched(tmp_path / "run", monkeypatch, looked)

    async def works() -> None:
        process.main = asyncio.current_task()
        async with process._watching(BENCH):
            await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(100):
            await works()


async def test_what_cannot_be_written_down_ends_who_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = LLMCallStore(tmp_path / "exchanges.jsonl")
    question = LLMQuestion.model_validate({"subject": "small", "messages": [{"role": "user", "content": "hi"}]})

    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(RecordError, match="cannot write to the record"):
        async with asyncio.timeout(100):
            await exchanges.reserve("c", "x-0", question, Cost(tokens=1))
    await exchanges.close()


@pytest.mark.parametrize("given", ["reproduce_only", "accept_baseline", ""])
def test_an_unexpected_result_is_explained_with_what_can_be_done(given: str) -> None:
    started = RunStarted(kind="ablation", idea=IDEA, settings={}, seed=0, version="0", model="scripted")
    state = RunState(started=started, overrides={f"ablation.{given}": True})
    state.repository.baseline = BaselineChecked(tree="t", mean=0.8, spread=0.1, verdict="differs", why="no {seed}")
    code, reason = find_ending(state)
    assert code == FINDINGS and reason.endswith("; no {seed}")
    assert ("to ablate it anyway, give --accept-baseline" in reason) == (not given)


def test_a_study_that_an_earlier_version_began_gets_the_packages_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def build(*_: object, installed_before: object, **__: object) -> None:
        asked.append(installed_before)
        raise RecordError("enough")

    monkeypatch.setattr(repository_setup, "build_environment", build)

    def read_texts(_: str) -> dict[str, str]:
        return {}

    def open_mirror(_: RunFolder) -> SimpleNamespace:
        return SimpleNamespace(read_texts=read_texts)

    monkeypatch.setattr(repository_setup, "open_mirror", open_mirror)
    state, settings = RunState(), compose_settings()
    state.repository.environment = EnvironmentBuilt(python="3.12", packages={"a": "1"})
    mine = settings.model_copy(update={"code": settings.code.model_copy(update={"packages": {"b": "2"}})})
    for given in (settings, mine):
        with pytest.raises(RecordError, match="enough"):
            open_repository(given, RunFolder(tmp_path), state)
    assert asked == [{"a": "1"}, {"b": "2"}]
