"""Whole runs through the command line in seconds: the small study's model, and an executor that runs no code.

Record, search, figures and paper are the real ones; papers are checked in their source, and set where `typeset` says
so. A run can be killed after any event, and its clock be set.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.agent import run, run_process
from labwright.agent.cli import main
from labwright.models.backend import ModelRequest
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import hash_file
from labwright.record.schema.data_plan import Measurement
from labwright.review.evidence import check_draft
from labwright.sandbox.job import Job, JobOutcome
from labwright.search.scheduler import RunControl
from labwright.stages.paper import typesetting
from labwright.stages.paper.latex_sources import PaperParts
from labwright.stages.paper.template import PaperTemplate
from labwright.stages.paper.typesetting import PaperAssessment, assess_paper
from tests.fake_executor import FakeExecutor
from tests.stages.small_study import IDEA, make_small_model
from tests.stages.test_budget import drawn

FLAGS = {
    "seed": 5,
    "search.num_workers": 1,
    "search.num_drafts": 1,
    "search.num_seeds": 2,
    "search.max_seeds": 2,
    "search.preliminary.nodes": 2,
    "search.tuning.nodes": 1,
    "search.agenda.nodes": 1,
    "search.ablation.nodes": 1,
    "paper.reflections": 1,
    "paper.citation_rounds": 0,
    "paper.missing_ablations": 0,
    "paper.judge": "false",
    "search.ladder": False,
    "sandbox.isolation": "auto",
}


class Killed(BaseException):
    """Stands for a SIGKILL: nothing is caught, nothing more is recorded."""


class RunWorld:
    """One run in a folder: `kill` and `tick` may be set between commands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = monkeypatch
        self.model: ScriptedModel = make_small_model()
        self.typeset = False
        """Whether TeX sets the papers."""
        self.device = "cpu"
        self.packages: tuple[str, ...] = ("numpy 2.0",)
        self.seconds = 10.0
        """How long an experiment says that it ran."""
        self.delay = 0.0
        """How long it holds its place."""
        self.ran: list[str] = []
        self.begun: dict[str, float] = {}
        """When experiments were begun, by the name of their job, as `now` has it."""
        self.events: list[Event] = []
        """Of the last command."""
        self.kill: Callable[[Event], bool] = lambda _: False
        self.tick: Callable[[Event, RunState], float] = lambda event, state: 0.0
        """Seconds that the clock jumps forward after an event."""
        self.now = 0.0
        self._install()

    @property
    def asked_roles(self) -> list[str]:
        """The roles that the model was asked as, in order."""
        return [request.role.name for request in self.model.requests]

    @property
    def state(self) -> RunState:
        return read_state(self.folder / "run")

    def run(self, *more: str, **settings: object) -> int:
        """`scientist run`; returns the exit code, or raises `Killed`."""
        idea = self.folder / "idea.json"
        idea.write_text(IDEA.model_dump_json(by_alias=True))
        flags = FLAGS | {key.replace("__", "."): value for key, value in settings.items()}
        given = [word for key, value in flags.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        return self.main("run", "--idea", str(idea), "--name", "run", "--runs", str(self.folder), *given, *more)

    def resume(self, *more: str) -> int:
        return self.main("resume", str(self.folder / "run"), *more)

    def main(self, *arguments: str) -> int:
        self.events = []
        return main(list(arguments))

    def _install(self) -> None:
        def opened(_: ModelSettings) -> ScriptedModel:
            return self.model

        def executor(places: int, *_: object, **__: object) -> FakeExecutor:
            made = FakeExecutor(self._ran, slots=places)
            made.device = self.device
            return made

        def importable(_: str) -> tuple[str, ...]:
            return self.packages

        world, append = self, EventLog.append

        def appended(log: EventLog, event: Event) -> None:
            append(log, event)
            world.events.append(event)
            world.now += world.tick(event, log.state)
            if world.kill(event):
                raise Killed

        class Clocked(RunControl):
            def read_clock(self) -> float:
                return super().read_clock() + world.now

        async def checked(parts: PaperParts, template: PaperTemplate, folder: Path, **more: Any) -> PaperAssessment:
            if world.typeset:
                return await assess_paper(parts, template, folder, **more)
            folder.mkdir(parents=True, exist_ok=True)
            return PaperAssessment(None, 4.0, (), check_draft(parts.draft, parts.evidence))

        self.patch.setattr(typesetting, "assess_paper", checked)
        self.patch.setattr(run, "open_backend", opened)
        self.patch.setattr(run_process, "open_executor", executor)
        self.patch.setattr(run_process, "list_packages", importable)
        self.patch.setattr(run_process, "RunControl", Clocked)
        self.patch.setattr(EventLog, "append", appended)

    def _ran(self, job: Job) -> tuple[float, JobOutcome]:
        self.ran.append(job.name)
        if job.kind == "plot":
            return 0.0, drawn(job)
        self.begun[job.name] = self.now
        (job.folder / "arrays").mkdir(parents=True, exist_ok=True)
        np.save(job.folder / "arrays" / "loss.npy", np.arange(3.0))
        arms = ("without-shrinkage",) if "without-shrinkage" in job.source["experiment.py"] else ("plain", "shrunk")
        base = 1.2 if "/labels" in job.name else 0.4  # with permuted labels it is at chance
        found = tuple(
            Measurement(
                name=name,
                value=base + 0.01 * (job.seed % 1000) + 0.1 * place,  # never worse than chance
                condition=arm,
                dataset="iris",
                split="validation",
                seed=job.seed,
                grade="computed",
            )
            for place, arm in enumerate(arms)
            for name in ("log_loss", "accuracy")
        )
        return self.delay, JobOutcome(
            seconds=self.seconds, measurements=found, arrays={"loss.npy": hash_file(job.folder / "arrays" / "loss.npy")}
        )


def is_answer_to(role: str, ordinal: int = 0) -> Callable[[Event], bool]:
    """Whether an event is the answer to a call of a role."""
    return lambda event: isinstance(event, CallAnswered) and (event.key.role, event.key.ordinal) == (role, ordinal)


def last_prompt(requests: list[ModelRequest], role: str) -> str:
    """The prompt of the last request of a role."""
    return next(one.prompt.user for one in reversed(requests) if one.role.name == role)
