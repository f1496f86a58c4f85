"""What becomes of a node that goes wrong, through the real stage with a scripted model and executor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks.scripted_study import SlowModel, answer_role, draw_plots, make_late_context, make_measurements
from labwright.models.backend import ModelRequest
from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import PlotInputs, Plots
from labwright.record.schema.nodes import ErrorClass, Failure, Node
from labwright.record.source_tree import SourceEdit
from labwright.sandbox.job import Job, JobOutcome
from labwright.search.settings import SearchSettings, StageLimits
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.programs import whole_files

Script = Callable[[Job], JobOutcome | None]


def search(
    tmp_path: Path, script: Script, *, nodes: int = 2, model: Callable[[ModelRequest], BaseModel] | None = None
) -> tuple[RunContext, list[Job]]:
    """A workbench in the agenda stage; where the script says nothing, code measures and plots draw."""
    jobs: list[Job] = []

    def run(job: Job) -> tuple[float, JobOutcome]:
        jobs.append(job)
        good = draw_plots(job) if job.kind == "plot" else JobOutcome(seconds=1, measurements=make_measurements(0.5))
        return 0.0, script(job) or good

    settings = SearchSettings(
        num_workers=1,
        lookahead=0,
        ladder=False,
        agenda=StageLimits(nodes=nodes, num_seeds=0),
        preliminary=StageLimits(num_seeds=0),
        tuning=StageLimits(num_seeds=0),
    )
    answers = SlowModel(model or program_or_plots, 0.0)
    return make_late_context(tmp_path, answers, FakeExecutor(run, slots=1), settings), jobs


def program_or_plots(request: ModelRequest) -> BaseModel:
    return Plots(plots="# again") if isinstance(request.inputs, PlotInputs) else answer_role(request)


async def agenda(bench: RunContext) -> list[Node]:
    """The nodes of the agenda stage, searched to its end."""
    research = StageRunner(bench)
    assert await research.run_stage("agenda")
    await research.close()
    return bench.state.list_stage_nodes("agenda")


def failed(kind: ErrorClass, *, at: str, attempt: int | None = None) -> Script:
    """The code of a node fails, in all attempts or in one."""

    def script(job: Job) -> JobOutcome | None:
        node, _, number = job.name.partition("/")
        hit = job.kind == "experiment" and node == at and attempt in (None, int(number or 0))
        return JobOutcome(seconds=7, failure=Failure(kind=kind, message=f"{kind} in {job.name}")) if hit else None

    return script


async def test_code_that_measures_nothing_is_debugged(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, failed("no measurement", at="n0004"), nodes=3)
    first, *others = await agenda(bench)
    assert (first.id, first.status, len(first.attempts), first.plot_count) == ("n0004", "buggy", 1, 0)
    assert [node.parent for node in others if node.kind == "debug"] == ["n0004"]


async def test_code_that_draws_nothing_is_drawn_again_and_debugged_only_if_that_fails(tmp_path: Path) -> None:
    def nothing(job: Job) -> JobOutcome | None:
        hopeless = job.name.startswith("n0004/plots") or job.name == "n0005/plots1"
        return JobOutcome(seconds=0, failure=Failure(kind="figure", message="no figure")) if hopeless else None

    bench, jobs = search(tmp_path, nothing, nodes=8)
    nodes = await agenda(bench)
    mended = next(node for node in nodes if node.id == "n0005")
    refused = next(node for node in nodes if node.id == "n0004")
    assert (mended.status, mended.plot_count) == ("good", 2)
    assert (refused.status, refused.plot_count) == ("buggy", 1 + bench.paper.replots) and bench.paper.replots == 2
    assert [node.parent for node in nodes if node.kind == "debug"] == ["n0004"]
    ran = [job.name for job in jobs if job.kind == "experiment"]
    assert ran.count("n0004/1") == 1 and "n0004/2" not in ran, "figures are drawn from the arrays that are there"


@pytest.mark.parametrize(("kind", "limit", "alone"), [("timeout", 1.5, False), ("memory", 1.0, True)])
async def test_what_hit_a_limit_is_run_once_more_with_another(
    tmp_path: Path, kind: ErrorClass, limit: float, alone: bool
) -> None:
    bench, jobs = search(tmp_path, failed(kind, at="n0004", attempt=1), nodes=1)
    (node,) = await agenda(bench)
    one, two = node.attempts
    assert node.status == "good" and (one.failure is not None and one.failure.kind == kind) and two.failure is None
    assert (one.limit, one.alone) == (bench.node_seconds, False)
    assert (two.limit, two.alone) == (limit * bench.node_seconds, alone)
    again = next(job for job in jobs if job.name == "n0004/2")
    assert (again.timeout, again.alone) == (two.limit, alone)


async def test_a_hopeless_attempt_is_pruned_and_not_debugged(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, failed("hopeless", at="n0004"), nodes=3)
    first, *others = await agenda(bench)
    assert (first.status, len(first.attempts)) == ("pruned", 1) and "hopeless in n0004/1" in first.reasons[0]
    assert all(node.kind == "improve" and node.parent == "n0001" for node in others)


BAD = Program(title="bad", plan="p", varies="v")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (BAD, "no code was written"),
        (
            BAD.model_copy(update={"files": whole_files({"../../events.jsonl": "x"})}),
            "'../../events.jsonl' is not a valid path below the root",
        ),
        (
            BAD.model_copy(update={"edits": (SourceEdit(path="experiment.py", find="RATE = 7", replace=""),)}),
            "does not occur",
        ),
    ],
)
async def test_a_program_that_is_none_is_one_clear_failure_of_its_node(tmp_path: Path, bad: Program, said: str) -> None:
    def model(request: ModelRequest) -> BaseModel:
        wrong = isinstance(request.inputs, CodeInputs) and request.inputs.ordinal == 0
        return bad if wrong else program_or_plots(request)

    bench, _ = search(tmp_path, lambda _: None, nodes=2, model=model)
    first, second = await agenda(bench)
    assert first.failure is not None and first.failure.kind == "no answer" and said in first.failure.message
    assert first.status == "buggy" and second.status == "good" and "\n" not in first.failure.message
    assert not bench.folder.get_source_path(first.id).exists() and not list(tmp_path.parent.glob("events.jsonl"))


@pytest.mark.parametrize("error", [ModelOutputInvalid("no JSON in three tries")])
async def test_a_failed_expansion_is_an_event_and_others_go_on(tmp_path: Path, error: Exception) -> None:
    def silent(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, CodeInputs) and request.inputs.ordinal == 0:
            raise error
        return program_or_plots(request)

    bench, _ = search(tmp_path, lambda _: None, nodes=3, model=silent)
    first, *others = await agenda(bench)
    assert first.failure is not None and first.failure.kind == "no answer" and "no JSON" in first.failure.message
    assert (first.status, first.attempts) == ("buggy", ())
    assert len(others) == 2 and all(node.status == "good" and node.kind == "improve" for node in others)
