"""The workbench: what every step of research is handed, and the two things they all do with it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from labwright.literature.lookup import Literature
from labwright.models.budget import Budget
from labwright.models.client import ModelClient, Models
from labwright.models.errors import ModelError
from labwright.models.settings import SubjectSettings
from labwright.record.events.running import Limited
from labwright.record.events.searching import Decided, Stepped, WorkDone
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.log import Recorder
from labwright.record.nouns.data import DataPlan, DatasetFacts
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.nodes import Failure, NodeStep
from labwright.record.nouns.repository import Expected
from labwright.record.nouns.space import Space
from labwright.record.reading import RecordError
from labwright.record.repository_source import Code
from labwright.record.unexpected import MOST, frames_of
from labwright.sandbox.datasets import Sources, registry
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.isolation.mounts import KERNEL_SIDE
from labwright.sandbox.job import Executor
from labwright.sandbox.packages.of_run import RunPackages
from labwright.sandbox.repository.mirror import Mirror
from labwright.sandbox.results import failure_of
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.search.signals import Signals
from labwright.stages.in_progress import WorkInProgress
from labwright.stages.settings import PaperSettings

QUIETEST = 60.0
"""Seconds that an experiment may be silent at least, where no setting says so: imports alone may take ten."""


@dataclass(frozen=True)
class UserRepository:
    """A user's repository that a study is of."""

    code: Code
    """What every cell runs, as far as no plan is needed for it."""
    mirror: Mirror
    expected: Expected | None = None
    """What it should give as it is."""
    frozen: tuple[str, ...] = ()
    """Patterns of files that no patch may change."""
    space: Space = field(default_factory=Space)
    """What the person says can be set of it."""


@dataclass(frozen=True)
class Bench:
    """One run's means. Paths under `folder`; seconds everywhere."""

    recorder: Recorder
    folder: RunFolder
    models: Models
    executor: Executor
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    budget: Budget | None = None
    repository: UserRepository | None = None
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
    more_packages: RunPackages | None = None
    """Finds and installs these; None: nothing can be installed."""
    of_user: tuple[str, ...] = ()
    """Pretrained models that the user names, as OWNER/NAME@REVISION."""
    hub: HubOffers | None = None
    """What a plan may ask for of the hub; None: nothing."""
    subjects: Mapping[str, SubjectSettings] = field(default_factory=dict[str, SubjectSettings])
    """Language models that experiments may ask, where the plan names them."""
    literature: Callable[[], AbstractAsyncContextManager[Literature]] | None = None
    """Opens the catalogues of published works; None: none may be asked."""
    notice: str = ""
    """What the first page says of how the paper was made."""
    isolation: Callable[[RunState], str] = lambda _: ""
    """What kept experiments from withheld labels, and what did not, in plain words."""
    signals: Signals = field(default_factory=Signals)
    in_progress: WorkInProgress = field(default_factory=WorkInProgress)
    """Cells that are measured now, by key, and figures that are looked at, by the sha256 of their file."""
    sources: Sources = field(default_factory=registry)
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
    def importable(self) -> tuple[str, ...]:
        """Packages with versions, as prompts name them: what was installed for the run, and what is there."""
        installed = self.state.installed.packages if self.state.installed is not None else {}
        return (*(f"{name} {version}" for name, version in installed.items()), *self.packages)

    @property
    def pretrained(self) -> tuple[str, ...]:
        """Models that `lab.pretrained` finds, as OWNER/NAME@REVISION."""
        asked = self.state.data_plan.pretrained if self.state.data_plan is not None else ()
        return (*self.of_user, *(name for name in asked if name not in self.of_user))

    @property
    def facts(self) -> tuple[DatasetFacts, ...]:
        return self.state.datasets

    @property
    def quiet_seconds(self) -> float | None:
        """Seconds without a sign of life after which an experiment of the search is ended; None: it never is."""
        if not self.search.prune or self.search.order != "arrival":
            return None
        return self.search.silent_timeout or max(QUIETEST, self.node_seconds / 2)

    @property
    def lab_reference(self) -> str:
        """The documentation of `lab`, as prompts show it."""
        place = KERNEL_SIDE / "lab"
        text = (place / "REFERENCE.md").read_text()
        if self.state.data_plan is None or not self.state.data_plan.subjects:
            return text
        return text.replace("\n## plots.py", (place / "SUBJECTS.md").read_text() + "\n## plots.py")


def enter(bench: Bench, node: str, step: NodeStep) -> None:
    """Record that work on a node goes over to a step, if it is in another one."""
    if bench.state.nodes[node].step != step:
        bench.recorder.append(Stepped(node=node, step=step))


async def do_work(bench: Bench, task: str, work: Callable[[ModelClient], Awaitable[None]]) -> None:
    """Do a step outside the search once: number it as a decision, do it, record that it is done.

    Cut short, it is begun again under the same number, so that its model calls find their answers. While a person has
    paused the run, it waits before it begins.
    """
    if bench.state.work_done(task):
        return
    await bench.signals.going()
    note_time(bench)
    k = numbered(bench.recorder, Work(task=task))
    await work(bench.models.at(k, 0))
    bench.recorder.append(WorkDone(k=k))


def note_time(bench: Bench) -> None:
    """Record that the run's time limit was reached, if it was and its paper is not out yet."""
    if bench.seconds_left() <= 0:
        limit(bench.recorder, f"the time limit of {bench.run_seconds:g} s was reached")


def limit(recorder: Recorder, reason: str) -> None:
    """Record that the run reached a limit, once; a released paper is not made partial by what its judge takes."""
    state = recorder.state
    if state.limited is None and state.released is None and state.version == 1:
        recorder.append(Limited(reason=reason))


def note_spent(bench: Bench, failure: Failure | None) -> None:
    """Record that the run reached a limit, if code failed since the budget of subjects is spent."""
    if failure is not None and failure.kind == "budget":
        limit(bench.recorder, failure.message)


def numbered(recorder: Recorder, action: Work) -> int:
    """The number of a step outside the search: its own if it was decided on before, else the next one."""
    state = recorder.state
    k = next((k for k, decided in state.decisions.items() if decided.action == action), None)
    if k is None:
        k = state.last_decision + 1
        recorder.append(Decided(k=k, action=action))
    return k


RENDERING = ("models/client.py", "models/ledger.py", "models/render.py", "models/roles/")
"""Of the models' room only these work on what a node left; the rest works on what a model answers."""
ELSEWHERE = ("agent/", "inspector/", "models/", "sandbox/executor.py", "sandbox/scripted.py", "record/log.py")
"""Where an exception is never a node's: the executor has an edge of its own for what code left."""


class SameFaultError(Exception):
    """Three nodes met the same fault of ours. Who acts: whoever fixes the program; then the run is resumed."""


def of_node(error: Exception) -> Failure:
    """The failure of the node that was worked on. Raises the error again where it is the run's."""
    passed = {file for file, _, _ in frames_of(error) if not file.startswith(RENDERING)}
    if isinstance(error, ModelError | RecordError | SameFaultError) or any(
        file.startswith(ELSEWHERE) for file in passed
    ):
        raise error
    return failure_of(error)


def end_if_repeated(state: RunState, failure: Failure | None) -> None:
    """Raises `SameFaultError` where a node's failure was a fault of ours that others met before it."""
    nodes = state.internal_faults.get(failure.ours, ()) if failure is not None and failure.ours else ()
    if failure is not None and len(nodes) >= MOST:
        raise SameFaultError(
            f"the program failed at the same place on {', '.join(nodes)}: {failure.ours}; the tracebacks are in "
            f"the record ('scientist why RUN'); the run can be resumed, best with a program that fixes it"
        )
