"""A person ends nodes and writes notes, through the real stage with a scripted model and executor."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from benchmarks.scripted_study import SlowModel, answer_role, draw_plots, make_late_context, make_measurements
from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.roles.experiment_code import CodeInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog, read_rows
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import DecisionMade
from labwright.record.line_store import write_rows
from labwright.record.run_folder import RunFolder, partial_path
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Node
from labwright.sandbox.job import Job, JobOutcome
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.paper.appendix import render_incidents
from labwright.stages.paper.disclosure import format_disclosure
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor

SLOW = 60.0
NOTE = "Take the rows with few examples first."


class Model(SlowModel):
    """Answers at once, but for the code of one node; keeps what it was asked by role `code`."""

    def __init__(self, slow: int = -1) -> None:
        super().__init__(answer_role, 0.0)
        self.slow, self.code = slow, list[CodeInputs]()

    async def answer(self, request: ModelRequest) -> Reply:
        if isinstance(request.inputs, CodeInputs):
            self.code.append(request.inputs)
            if request.inputs.ordinal == self.slow:
                await asyncio.sleep(SLOW)
        return await super().answer(request)


def executor_of(slow: str = "", *, seconds: float = SLOW) -> FakeExecutor:
    """Every experiment works at once, but for one that is slow."""

    def run(job: Job) -> tuple[float, JobOutcome]:
        outcome = draw_plots(job) if job.kind == "plot" else JobOutcome(seconds=1, measurements=make_measurements(0.5))
        return (seconds if job.name == slow else 0.0), outcome

    return FakeExecutor(run, slots=1)


def settings(nodes: int = 3) -> SearchSettings:
    none = StageLimits(num_seeds=0)
    return SearchSettings(
        num_workers=1, lookahead=0, agenda=StageLimits(nodes=nodes, num_seeds=0), preliminary=none, tuning=none
    )


async def agenda(bench: RunContext) -> list[Node]:
    research = StageRunner(bench)
    try:
        assert await research.run_stage("agenda")
    finally:
        await research.close()
    return bench.state.list_stage_nodes("agenda")


def kill(bench: RunContext, node: str) -> None:
    """As `agent.run_process` does it."""
    bench.recorder.append(CommandReceived(verb="kill", target=node, text="it diverges"))
    bench.signals.kill_node(node)


async def until(true: list[str], name: str) -> None:
    async with asyncio.timeout(SLOW / 2):
        while name not in true:
            await asyncio.sleep(0.01)


async def test_a_node_that_runs_is_ended_and_the_search_goes_on(tmp_path: Path) -> None:
    executor = executor_of("n0004/1")
    bench = make_late_context(tmp_path, Model(), executor, settings())
    task = asyncio.ensure_future(agenda(bench))
    await until(executor.started, "n0004/1")
    part = partial_path(bench.folder.get_attempt_path("n0004", 1))
    assert part.is_dir()
    began = time.monotonic()
    kill(bench, "n0004")
    first, *others = await task
    assert time.monotonic() - began < SLOW / 2
    assert (first.id, first.status, first.attempts) == ("n0004", "cancelled", ())
    assert first.failure is not None and first.failure.kind == "killed" and "it diverges" in first.failure.message
    assert not part.exists() and len(others) == 2, "it counts as a node of the stage"
    assert all(one.status == "good" and one.kind == "improve" and one.parent != "n0004" for one in others)


async def test_a_node_that_was_to_be_ended_when_the_program_was_killed_does_not_run_again(tmp_path: Path) -> None:
    executor = executor_of("n0004/1")
    bench = make_late_context(tmp_path, Model(), executor, settings())
    bench.recorder.append(DecisionMade(k=4, action=ExpandTree(stage="agenda", kind="improve", parent="n0001", seed=0)))
    bench.recorder.append(CommandReceived(verb="kill", target="n0004", text="it diverges"))  # and here came the kill -9
    async with asyncio.timeout(SLOW / 2):
        first, *_ = await agenda(bench)
    assert first.status == "cancelled" and "n0004/1" not in executor.started


async def test_a_note_is_shown_from_the_next_decision_on_and_what_was_asked_is_told(tmp_path: Path) -> None:
    model, executor = Model(), executor_of("n0004/1")
    bench = make_late_context(tmp_path, model, executor, settings())
    task = asyncio.ensure_future(agenda(bench))
    await until(executor.started, "n0004/1")
    bench.recorder.append(CommandReceived(verb="note", text=NOTE, by="ada"))
    bench.recorder.append(CommandReceived(verb="note", text="for later", target="ablation", by="ada"))
    kill(bench, "n0004")
    await task
    assert [one.notes for one in model.code] == [(), (NOTE,), (NOTE,)]
    told = format_disclosure(bench.state, isolation="walls", text_round=0)
    shown = render_incidents(bench.state)
    for words in (NOTE, "it diverges", "for later", "n0004"):
        assert words in told and words in shown, words
    assert '"ada"' not in told and "ada" not in shown, "the paper does not say who it was"


@pytest.mark.slow
async def test_wherever_a_kill_comes_after_a_note_the_same_prompts_are_asked(tmp_path: Path) -> None:
    """Every prefix of the log from the note on: no answer is stale, none that is committed is asked for again."""
    whole, model = tmp_path / "whole", Model()
    bench = make_late_context(whole, model, executor_of("n0004/1", seconds=0.5), settings(nodes=2))
    task = asyncio.ensure_future(agenda(bench))
    async with asyncio.timeout(SLOW / 2):
        while not model.requests:
            await asyncio.sleep(0.01)
    bench.recorder.append(CommandReceived(verb="note", text=NOTE, file="1.json"))  # while the first node runs
    assert [node.decision for node in await task] == [4, 5]
    answers = len(bench.state.calls.answers)
    assert [one.notes for one in model.code] == [(), (NOTE,)]
    rows = read_rows(whole / "events.jsonl")
    kinds = [json.loads(body)["type"] for _, body in rows]
    for length in range(kinds.index("commanded") + 1, len(kinds) + 1):
        folder = tmp_path / f"cut{length}"
        shutil.copytree(whole, folder)
        write_rows(folder / "events.jsonl", "run", rows[:length])
        again = EventLog(folder / "events.jsonl")
        committed, model = len(again.state.calls.answers), Model()
        await agenda(
            RunContext(
                recorder=again,
                folder=RunFolder(folder),
                executor=executor_of(),
                search=settings(nodes=2),
                paper=bench.paper,
                models=Models(model, again, ModelSettings(), time.monotonic),
                node_seconds=60.0,
            )
        )
        assert len(again.state.calls.answers) == answers and answers - committed == len(model.requests)
        again.close()
