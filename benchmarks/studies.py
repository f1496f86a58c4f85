"""Scripted parts for benchmarks: a slow model, jobs of known length, and a workbench that stands in mid-run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.roles.coding import CodeInputs, Program
from labwright.models.roles.figures import FigureReviews, VisionInputs
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.edits import File
from labwright.record.events.running import Started
from labwright.record.events.searching import (
    Decided,
    Executed,
    Judged,
    Prepared,
    Proposed,
    Settled,
    Summarised,
    WorkDone,
)
from labwright.record.folder import RunFolder, write_source
from labwright.record.log import EventLog
from labwright.record.nouns.data import Arm, DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.nouns.decisions import Expand, summary_of
from labwright.record.nouns.figures import AxesFacts, Figure, FigureFacts, FigureReview
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.nodes import Attempt, StageName, StageSummary, Verdict
from labwright.sandbox.job import Executor, Job, Outcome
from labwright.sandbox.scripted import ScriptedExecutor
from labwright.search.settings import SearchSettings
from labwright.stages.bench import Bench
from labwright.stages.settings import PaperSettings

LENGTHS = (1.0, 2.0, 3.0, 12.0)

PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
)
SOURCE = {"experiment.py": "# " + "experiment " * 200, "plots.py": "# " + "plots " * 100}
"""Programs of every node, the root too: what prompts show of a parent is of one size."""

IDEA = Idea.model_validate({"Name": "bench", "Title": "Bench", "Experiments": ["one", "two"]})


class SlowModel(ScriptedModel):
    """A scripted model that takes so many seconds an answer."""

    def __init__(self, script: Callable[[ModelRequest], BaseModel], latency: float) -> None:
        super().__init__(script)
        self._latency = latency

    async def answer(self, request: ModelRequest) -> Reply:
        await asyncio.sleep(self._latency)
        return await super().answer(request)


def program_of(request: ModelRequest) -> BaseModel:
    """Answers of the roles of a search, of a constant size."""
    if isinstance(request.inputs, CodeInputs):
        return Program(
            title="a program",
            plan="as before",
            varies=f"LEARNING_RATE=0.{request.inputs.ordinal:04d}",
            files=tuple(File(path=path, text=text) for path, text in SOURCE.items()),
        )
    if isinstance(request.inputs, VisionInputs):
        return FigureReviews(reviews=tuple(FigureReview(name=name, readable=True) for name in request.inputs.names))
    return Verdict(sound=True, analysis="It measured what it planned.")


def source_of_prompt(request: ModelRequest) -> int:
    """Characters of a request."""
    return len(request.prompt.system) + len(request.prompt.user)


def scripted_jobs(unit: float, places: int) -> Executor:
    """An executor whose k-th experiment takes `LENGTHS` in turn, and whose plots take no time."""
    begun: dict[str, int] = {}

    def script(job: Job) -> tuple[float, Outcome]:
        if job.mode == "plot":
            return 0.0, drawn(job)
        k = begun.setdefault(job.name, len(begun))
        seconds = LENGTHS[k % len(LENGTHS)] * unit
        return seconds, Outcome(seconds=seconds, measurements=measured(0.5 - 0.0001 * k))

    return ScriptedExecutor(script, slots=places)


def measured(value: float) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="log_loss",
            value=value,
            condition=arm.name,
            dataset="digits",
            split="validation",
            seed=0,
            grade="computed",
        )
        for arm in PLAN.arms
    )


def new_bench(
    root: Path, model: SlowModel, executor: Executor, settings: SearchSettings, *, plan: DataPlan = PLAN
) -> Bench:
    """A workbench of a run whose data plan was made."""
    folder = RunFolder(root)
    folder.create()
    log = EventLog(folder.db)
    log.append(Started(idea=IDEA, settings={}, seed=0, version="0", model=model.name))
    log.append(Prepared(data_plan=plan, datasets=()))
    return Bench(
        recorder=log,
        folder=folder,
        executor=executor,
        search=settings,
        paper=PaperSettings(),
        models=Models(model, log, ModelSettings(), time.monotonic),
        node_seconds=60.0,
    )


def bench_for(
    root: Path, model: SlowModel, executor: Executor, settings: SearchSettings, *, plan: DataPlan = PLAN
) -> Bench:
    """A workbench of a run whose first two stages are over."""
    bench = new_bench(root, model, executor, settings, plan=plan)
    log = bench.recorder
    log.append(Decided(k=1, action=Expand(stage="preliminary", kind="draft", seed=0)))
    sha256 = write_source(bench.folder.source("n0001"), SOURCE)
    log.append(Proposed(node="n0001", decision=1, title="root", plan="root", varies="root", source_sha256=sha256))
    log.append(Executed(node="n0001", attempt=Attempt(number=1, seconds=1, measurements=measured(0.6))))
    log.append(Judged(node="n0001", status="good"))
    over: tuple[StageName, ...] = ("preliminary", "tuning")
    for k, stage in enumerate(over, start=2):
        log.append(Settled(stage=stage, best="n0001", ended="for the benchmark"))
        log.append(Decided(k=k, action=summary_of(stage)))
        log.append(Summarised(k=k, summary=StageSummary(stage=stage, tried="the root", found="it works")))
        log.append(WorkDone(k=k))
    return bench


def drawn(job: Job) -> Outcome:
    """Plots that draw one readable figure."""
    from PIL import Image

    (job.folder / "figures").mkdir(parents=True, exist_ok=True)
    Image.radial_gradient("L").save(job.folder / "figures" / "loss.png")
    facts = FigureFacts(axes=(AxesFacts(xlabel="epoch", ylabel="loss", series=1),))
    return Outcome(seconds=0, figures=(Figure(name="loss.png", sha256="0", facts=facts),))
