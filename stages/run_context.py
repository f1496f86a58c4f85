"""The workbench: what every step of research is handed, and the two things they all do with it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from labwright.literature.lookup import LiteratureClient
from labwright.models.budget import Budget
from labwright.models.client import ModelClient, Models
from labwright.models.errors import ModelError
from labwright.models.settings import SubjectSettings
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import DecisionMade, NodeStepEntered, TaskDone
from labwright.record.internal_errors import MAX_NODES_PER_FAULT, list_own_frames
from labwright.record.log_reader import RecordError
from labwright.record.reducers.run_state import RunState
from labwright.record.repository_source import RepositoryProgram
from labwright.record.run_folder import RunFolder
from labwright.record.schema.command_space import CommandSpace
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Failure, NodeStep
from labwright.record.schema.repository import ExpectedResult
from labwright.sandbox.datasets import DatasetSources, build_registry
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.isolation.mounts import KERNEL_SIDE
from labwright.sandbox.job import Executor
from labwright.sandbox.packages.run_packages import RunPackages
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.results import failure_from_error
from labwright.search.run_control import RunControl
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.stages.settings import PaperSettings
from labwright.stages.work_in_progress import WorkInProgress

MIN_QUIET_SECONDS = 60.0
"""Seconds that an experiment may be silent at least, where no setting says so: imports alone may take ten."""


@dataclass(frozen=True)
class StudiedRepository:
    """A user's repository that a study is of."""

    code: RepositoryProgram
    """What every cell runs, as far as no plan is needed for it."""
    mirror: GitMirror
    expected: ExpectedResult | None = None
    """What it should give as it is."""
    frozen_patterns: tuple[str, ...] = ()
    """Patterns of files that no patch may change."""
    space: CommandSpace = field(default_factory=CommandSpace)
    """What the person says can be set of it."""


@dataclass(frozen=True)
class RunContext:
    """One run's means. Paths under `folder`; seconds everywhere."""

    recorder: Recorder
    folder: RunFolder
    models: Models
    executor: Executor
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    budget: Budget | None = None
    repository: StudiedRepository | None = None
    """The user's repository, whose command the cells run; None: experiments are written."""
    run_seconds: float = 15 * 3600.0
    """The time limit of the run, of which stages without one of their own take a share."""
    seconds_left: Callable[[], float] = lambda: math.inf
    """What remains of it."""
    device: str = "cpu"
    """What experiments run on, as prompts say it."""
    network: bool = False
    """Whether experiments reach the network."""
    packages: tuple[str, ...] = ()
    """Importable packages with versions, as prompts name them, without those that are installed for the run."""
    run_packages: RunPackages | None = None
    """Finds and installs these; None: nothing can be installed."""
    user_pretrained: tuple[str, ...] = ()
    """Pretrained models that the user names, as OWNER/NAME@REVISION."""
    hub: HubOffers | None = None
    """What a plan may ask for of the hub; None: nothing."""
    subjects: Mapping[str, SubjectSettings] = field(default_factory=dict[str, SubjectSettings])
    """Language models that experiments may ask, where the plan names them."""
    literature: Callable[[], AbstractAsyncContextManager[LiteratureClient]] | None = None
    """Opens the catalogues of published works; None: none may be asked."""
    notice: str = ""
    """What the first page says of how the paper was made."""
    isolation: Callable[[RunState], str] = lambda _: ""
    """What kept experiments from withheld labels, and what did not, in plain words."""
    signals: RunControl = field(default_factory=RunControl)
    work_in_progress: WorkInProgress = field(default_factory=WorkInProgress)
    """Cells that are measured now, by key, and figures that are looked at, by the sha256 of their file."""
    sources: DatasetSources = field(default_factory=build_registry)
    """Every dataset that can be had, by name."""
    scorers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dataset -> FILE.py:FUNCTION of a scorer of the user's own, to be frozen before the search."""

    @property
    def state(self) -> RunState:
        return self.recorder.state

    @property
    def retry_seconds(self) -> float:
        """The limit of the second run that code gets which met `node_seconds`."""
        return self.node_seconds * RETRY_FACTOR

    @property
    def idea(self) -> Idea:
        assert self.state.started is not None
        return self.state.started.idea

    @property
    def plan(self) -> DataPlan:
        assert self.state.data_plan is not None
        return self.state.data_plan

    @property
    def importable_packages(self) -> tuple[str, ...]:
        """Packages with versions, as prompts name them: what was installed for the run, and what is there."""
        installed = self.state.installed_packages.packages if self.state.installed_packages is not None else {}
        return (*(f"{name} {version}" for name, version in installed.items()), *self.packages)

    @property
    def pretrained_models(self) -> tuple[str, ...]:
        """Models that `lab.pretrained` finds, as OWNER/NAME@REVISION."""
        asked = self.state.data_plan.pretrained if self.state.data_plan is not None else ()
        return (*self.user_pretrained, *(name for name in asked if name not in self.user_pretrained))

    @property
    def facts(self) -> tuple[DatasetFacts, ...]:
        return self.state.datasets

    @property
    def quiet_seconds(self) -> float | None:
        """Seconds without a sign of life after which an experiment of the search is ended; None: it never is."""
        if not self.search.prune or self.search.order != "arrival":
            return None
        return self.search.silent_timeout or max(MIN_QUIET_SECONDS, self.node_seconds / 2)

    @property
    def lab_reference(self) -> str:
        """The documentation of `lab`, as prompts show it."""
        place = KERNEL_SIDE / "lab"
        text = (place / "REFERENCE.md").read_text()
        if self.state.data_plan is None or not self.state.data_plan.subjects:
            return text
        return text.replace("\n## plots.py", (place / "SUBJECTS.md").read_text() + "\n## plots.py")


def enter_step(context: RunContext, node: str, step: NodeStep) -> None:
    """Record that work on a node goes over to a step, if it is in another one."""
    if context.state.nodes[node].step != step:
        context.recorder.append(NodeStepEntered(node=node, step=step))


async def run_once(context: RunContext, task: str, work: Callable[[ModelClient], Awaitable[None]]) -> None:
    """Do a step outside the search once: number it as a decision, do it, record that it is done.

    Cut short, it is begun again under the same number, so that its model calls find their answers. While a person has
    paused the run, it waits before it begins.
    """
    if context.state.is_task_done(task):
        return
    await context.signals.wait_to_continue()
    record_time_limit(context)
    k = decision_number(context.recorder, RunTask(task=task))
    await work(context.models.make_client(k, 0))
    context.recorder.append(TaskDone(k=k))


def record_time_limit(context: RunContext) -> None:
    """Record that the run's time limit was reached, if it was and its paper is not out yet."""
    if context.seconds_left() <= 0:
        record_limit(context.recorder, f"the time limit of {context.run_seconds:g} s was reached")


def record_limit(recorder: Recorder, reason: str) -> None:
    """Record that the run reached a limit, once; a released paper is not made partial by what its judge takes."""
    state = recorder.state
    if state.limit_reason is None and state.released is None and state.paper_version == 1:
        recorder.append(LimitReached(reason=reason))


def record_spent_budget(context: RunContext, failure: Failure | None) -> None:
    """Record that the run reached a limit, if code failed since the budget of subjects is spent."""
    if failure is not None and failure.kind == "budget":
        record_limit(context.recorder, failure.message)


def decision_number(recorder: Recorder, action: RunTask) -> int:
    """The number of a step outside the search: its own if it was decided on before, else the next one."""
    state = recorder.state
    k = next((k for k, decided in state.decisions.items() if decided.action == action), None)
    if k is None:
        k = state.last_decision + 1
        recorder.append(DecisionMade(k=k, action=action))
    return k


RENDERING_FILES = ("models/client.py", "models/ledger.py", "models/prompt_renderer.py", "models/roles/")
"""Of the models' room only these work on what a node left; the rest works on what a model answers."""
RUN_LEVEL_FILES = (
    "agent/",
    "inspector/",
    "models/",
    "sandbox/executor.py",
    "sandbox/fake_executor.py",
    "record/event_log.py",
)
"""Where an exception is never a node's: the executor has an edge of its own for what code left."""


class RepeatedFaultError(Exception):
    """Three nodes met the same fault of ours. Who acts: whoever fixes the program; then the run is resumed."""


def as_node_failure(error: Exception) -> Failure:
    """The failure of the node that was worked on. Raises the error again where it is the run's."""
    passed = {file for file, _, _ in list_own_frames(error) if not file.startswith(RENDERING_FILES)}
    if isinstance(error, ModelError | RecordError | RepeatedFaultError) or any(
        file.startswith(RUN_LEVEL_FILES) for file in passed
    ):
        raise error
    return failure_from_error(error)


def raise_if_repeated(state: RunState, failure: Failure | None) -> None:
    """Raises `SameFaultError` where a node's failure was a fault of ours that others met before it."""
    nodes = state.internal_faults.get(failure.ours, ()) if failure is not None and failure.ours else ()
    if failure is not None and len(nodes) >= MAX_NODES_PER_FAULT:
        raise RepeatedFaultError(
            f"the program failed at the same place on {', '.join(nodes)}: {failure.ours}; the tracebacks are in "
            f"the record ('scientist why RUN'); the run can be resumed, best with a program that fixes it"
        )
