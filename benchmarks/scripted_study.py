"""Scripted parts for benchmarks: a slow model, jobs of known length, and a run context in mid-run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from benchmarks.generated_runs import measure
from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import FigureReviews, VisionInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    StageSummarised,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.schema.decisions import ExpandTree, build_summary_task
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, Cell, NodeVerdict, StageName, StageSummary
from labwright.record.schema.paper import AxesFacts, Figure, FigureFacts, FigureReview
from labwright.record.source_tree import WholeFile
from labwright.sandbox.job import Executor, Job, JobOutcome
from labwright.search.settings import SearchSettings
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.fake_executor import FakeExecutor

JOB_LENGTHS = (1.0, 2.0, 3.0, 12.0)

PLAN = DataPlan(
    task="classify",
    objective="improve",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
)
SOURCE = {"experiment.py": "# " + "experiment " * 200, "plots.py": "# " + "plots " * 100}
"""Programs of every node, including the root, so that prompts show parents of one size."""

ITEMS = ("one", "two", *(f"experiment {number}" for number in range(3, 25)))
"""One for each node, since two nodes never work on one item at the same time."""
IDEA = Idea.model_validate({"Name": "bench", "Title": "Bench", "Experiments": ITEMS})


class SlowModel(ScriptedModel):
    """A scripted model with a fixed number of seconds per answer."""

    def __init__(self, script: Callable[[ModelRequest], BaseModel], latency: float) -> None:
        super().__init__(script)
        self._latency = latency

    async def answer(self, request: ModelRequest) -> Reply:
        await asyncio.sleep(self._latency)
        return await super().answer(request)


def answer_role(request: ModelRequest) -> BaseModel:
    """Answer the roles of a search, with a constant size."""
    if isinstance(request.inputs, CodeInputs):
        return Program(
            title="a program",
            plan="as before",
            varies=f"LEARNING_RATE=0.{request.inputs.ordinal:04d}",
            files=tuple(WholeFile(path=path, text=text) for path, text in SOURCE.items()),
        )
    if isinstance(request.inputs, VisionInputs):
        return FigureReviews(reviews=tuple(FigureReview(name=name, readable=True) for name in request.inputs.names))
    return NodeVerdict(sound=True, analysis="It measured what it planned.")


def prompt_length(request: ModelRequest) -> int:
    """Return the characters of a request."""
    return len(request.prompt.system) + len(request.prompt.user)


def make_job_executor(unit: float, places: int) -> Executor:
    """Make an executor whose experiments take the job lengths in turn, and whose plots take no time."""
    begun: dict[str, int] = {}

    def script(job: Job) -> tuple[float, JobOutcome]:
        if job.kind == "plot":
            return 0.0, draw_plots(job)
        k = begun.setdefault(job.name, len(begun))
        seconds = JOB_LENGTHS[k % len(JOB_LENGTHS)] * unit
        return seconds, JobOutcome(seconds=seconds, measurements=make_measurements(0.5 - 0.0001 * k))

    return FakeExecutor(script, slots=places)


def make_measurements(value: float) -> tuple[Measurement, ...]:
    return tuple(measure(value, Cell(dataset="digits", arm=arm.name), grade="computed") for arm in PLAN.arms)


def make_context(
    root: Path, model: SlowModel, executor: Executor, settings: SearchSettings, *, plan: DataPlan = PLAN
) -> RunContext:
    """Make the context of a run whose data plan exists."""
    folder = RunFolder(root)
    folder.create_folders()
    log = EventLog(folder.events)
    log.append(RunStarted(idea=IDEA, settings={}, seed=0, version="0", model=model.name))
    log.append(PlanPrepared(data_plan=plan, datasets=()))
    return RunContext(
        recorder=log,
        folder=folder,
        executor=executor,
        search=settings,
        paper=PaperSettings(),
        models=Models(model, log, ModelSettings(), time.monotonic),
        node_seconds=60.0,
    )


def make_late_context(
    root: Path, model: SlowModel, executor: Executor, settings: SearchSettings, *, plan: DataPlan = PLAN
) -> RunContext:
    """Make the context of a run whose first two stages are finished."""
    bench = make_context(root, model, executor, settings, plan=plan)
    log = bench.recorder
    log.append(DecisionMade(k=1, action=ExpandTree(stage="preliminary", kind="draft", seed=0)))
    sha256 = seal_source(bench.folder.get_source_path("n0001"), SOURCE)
    log.append(NodeProposed(node="n0001", decision=1, title="root", plan="root", varies="root", source_sha256=sha256))
    log.append(AttemptExecuted(node="n0001", attempt=Attempt(number=1, seconds=1, measurements=make_measurements(0.6))))
    log.append(NodeJudged(node="n0001", status="good"))
    over: tuple[StageName, ...] = ("preliminary", "tuning")
    for k, stage in enumerate(over, start=2):
        log.append(StageWinnerChosen(stage=stage, best="n0001", ended="for the benchmark"))
        log.append(DecisionMade(k=k, action=build_summary_task(stage)))
        log.append(StageSummarised(k=k, summary=StageSummary(stage=stage, tried="the root", found="it works")))
        log.append(TaskDone(k=k))
    return bench


def draw_plots(job: Job) -> JobOutcome:
    """Draw one readable figure."""
    from PIL import Image

    (job.folder / "figures").mkdir(parents=True, exist_ok=True)
    Image.radial_gradient("L").save(job.folder / "figures" / "loss.png")
    facts = FigureFacts(axes=(AxesFacts(xlabel="epoch", ylabel="loss", series=1),))
    return JobOutcome(seconds=0, figures=(Figure(name="loss.png", sha256="0", facts=facts),))
