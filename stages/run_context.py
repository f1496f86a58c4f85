"""The context of a run that every research step receives, and helpers shared by all steps.

Also the gates at which a run waits for a person, and the work in progress that other nodes need as well.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from labwright.literature.lookup import LiteratureClient
from labwright.models.budget import Budget
from labwright.models.client import ModelClient, Models
from labwright.models.errors import BudgetSpent, ModelError, ModelOutputInvalid, ModelRefused
from labwright.models.roles.experiment_code import StudyInputs
from labwright.models.roles.role import Role
from labwright.models.settings import SubjectSettings
from labwright.record.event_log import Recorder, RecordError
from labwright.record.events.run_events import CommandReceived, GateEditRefused, GateReached, LimitReached
from labwright.record.events.search_events import DecisionMade, NodeStepEntered, TaskDone
from labwright.record.internal_errors import MAX_NODES_PER_FAULT, list_own_frames
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.idea import Idea, ResearchQuestion
from labwright.record.schema.nodes import Failure, GateName, NodeStep
from labwright.record.tuning_results import build_effective_plan
from labwright.sandbox.datasets import DatasetSources, build_registry
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.job import Executor
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.repository.environment import AblationSettings, StudyRepository
from labwright.sandbox.results import failure_from_error
from labwright.sandbox.settings import SandboxSettings
from labwright.search.hours import RunTime
from labwright.search.scheduler import RunControl
from labwright.search.settings import RETRY_FACTOR, SearchSettings
from labwright.stages.settings import PaperSettings

# Work that a node is doing and that other nodes need as well: cells being measured, code being written. Other nodes
# wait for it. This module records nothing: reused work is in the record, and a resumed process starts empty. In
# `ticket` order no node waits for cells, because a node's work must not depend on time; drafts always wait for the
# code of all drafts decided before them. If the first node does not get a result, the next one that waits does the
# work, and the others wait for that one.


class WorkInProgress:
    """Keys of work in progress, each owned by the node that started it first."""

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Event] = {}

    def list_pending(self, keys: Iterable[str]) -> list[asyncio.Event]:
        """Return, for each of these keys in progress, the event that is set when the work on it is recorded or
        abandoned.
        """
        return [self._pending[key] for key in keys if key in self._pending]

    @contextmanager
    def acquire(self, keys: Iterable[str]) -> Generator[None]:
        """Take ownership of the keys that are not in progress."""
        acquired = {key: asyncio.Event() for key in keys if key not in self._pending}
        self._pending |= acquired
        try:
            yield
        finally:
            for key, event in acquired.items():
                if self._pending.get(key) is event:
                    self.release(key)

    def release(self, key: str) -> None:
        """Release a key whose work has been recorded or abandoned."""
        if (event := self._pending.pop(key, None)) is not None:
            event.set()


MIN_QUIET_SECONDS = 60.0
"""Default minimum silence in seconds before an experiment counts as stuck; imports alone may take ten."""


@dataclass(frozen=True)
class RunContext:
    """Everything that the steps of one run need. All paths are under `folder`; all times are in seconds."""

    recorder: Recorder
    folder: RunFolder
    models: Models
    executor: Executor
    search: SearchSettings
    paper: PaperSettings
    node_seconds: float
    budget: Budget | None = None
    repository: StudyRepository | None = None
    """The user's repository, whose command the cells run; None: a model writes the experiments."""
    ablation: AblationSettings = field(default_factory=AblationSettings)
    question: ResearchQuestion | None = None
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    run_seconds: float = 15 * 3600.0
    """The time limit of the run; stages without their own limit get a share of it."""
    seconds_left: Callable[[], float] = lambda: math.inf
    """The remaining part of the time limit."""
    device: str = "cpu"
    """The device of the experiments, as prompts describe it."""
    packages: tuple[str, ...] = ()
    """Importable packages with versions, as prompts name them, except those installed for the run."""
    run_packages: RunPackages = field(default_factory=lambda: RunPackages(SandboxSettings()))
    """Finds and installs packages for the run."""
    hub: HubOffers = field(default_factory=lambda: HubOffers(SandboxSettings()))
    """Datasets and models that a plan may take from the hub."""
    subjects: Mapping[str, SubjectSettings] = field(default_factory=dict[str, SubjectSettings])
    """Language models that experiments may query if the plan names them."""
    literature: Callable[[], AbstractAsyncContextManager[LiteratureClient]] | None = None
    """Opens the catalogues of published works; None: no catalogue may be queried."""
    memory: Path | None = None
    """Folder with records of earlier studies that prompts show; None: none is used."""
    forecast: Callable[[RunState, DataPlan | None], str] = lambda state, plan: ""
    """Describes the estimated cost from a state to the end of the run, with this plan if it is not recorded yet."""
    notice: Callable[[RunState], str] = lambda _: ""
    """Returns the note in the appendix that says how the paper was made."""
    isolation: Callable[[RunState], str] = lambda _: ""
    """Describes how withheld labels were protected from experiments, and the limits of the protection."""
    signals: RunControl = field(default_factory=RunControl)
    work_in_progress: WorkInProgress = field(default_factory=WorkInProgress)
    """Cells being measured, by key, and code being written, by node."""
    sources: DatasetSources = field(default_factory=build_registry)
    """Every available dataset, by name."""
    scorers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dataset -> FILE.py:FUNCTION of the user's own scorer, which is frozen before the search."""

    @property
    def state(self) -> RunState:
        return self.recorder.state

    @property
    def time(self) -> RunTime:
        return RunTime(self.run_seconds, self.seconds_left())

    @property
    def studied(self) -> StudyRepository:
        """The studied repository; only in a study of a repository."""
        assert self.repository is not None
        return self.repository

    @property
    def retry_seconds(self) -> float:
        """The time limit of a second run, after code exceeded `node_seconds`."""
        return self.node_seconds * RETRY_FACTOR

    @property
    def idea(self) -> Idea:
        assert self.state.started is not None
        return self.state.started.idea

    @property
    def plan(self) -> DataPlan:
        assert self.state.search.data_plan is not None
        return self.state.search.data_plan

    def build_study_inputs(self, decision_id: int | None = None) -> StudyInputs:
        """Return idea, plan and data as the prompts of a decision show them (None: as of now)."""
        plan = build_effective_plan(self.state, decision_id)
        return StudyInputs(idea=self.idea, data_plan=plan, facts=self.facts)

    @property
    def importable_packages(self) -> tuple[str, ...]:
        """Packages with versions, as named in prompts: those installed for the run and those already present."""
        found = self.state.search.installed_packages
        installed = found.packages.items() if found is not None else ()
        return (*(f"{name} {version}" for name, version in installed), *self.packages)

    @property
    def pretrained_models(self) -> tuple[str, ...]:
        """Models that `lab.pretrained` can load, as OWNER/NAME@REVISION."""
        planned = self.state.search.data_plan.pretrained if self.state.search.data_plan is not None else ()
        return tuple(dict.fromkeys((*self.sandbox.pretrained, *planned)))

    @property
    def network(self) -> bool:
        """Whether experiments have network access."""
        return self.sandbox.network == "on"

    @property
    def facts(self) -> tuple[DatasetFacts, ...]:
        return self.state.search.datasets

    @property
    def quiet_seconds(self) -> float | None:
        """Seconds without output after which an experiment of the search is stopped; None: never."""
        if not self.search.prune or self.search.order != "arrival":
            return None
        return self.search.silent_timeout or max(MIN_QUIET_SECONDS, self.node_seconds / 2)

    @property
    def lab_reference(self) -> str:
        """The reference of `lab`, as shown in prompts."""
        place = KERNEL_SIDE / "lab"
        text = (place / "REFERENCE.md").read_text()
        if self.state.search.data_plan is None or not self.state.search.data_plan.subjects:
            return text
        return text.replace("\n## plots.py", (place / "SUBJECTS.md").read_text() + "\n## plots.py")


class StopRequested(Exception):
    """Raised where work outside the search would start after the user asked the run to stop."""


async def wait_to_start(context: RunContext) -> None:
    """Wait while the run is paused. Raises `StopRequested`."""
    if not await context.signals.wait_to_continue():
        raise StopRequested


def enter_step(context: RunContext, node: str, step: NodeStep) -> None:
    """Record that a node entered a step, unless the node is already in it."""
    if context.state.nodes[node].step != step:
        context.recorder.append(NodeStepEntered(node=node, step=step))


async def run_once(context: RunContext, task: str, work: Callable[[ModelClient], Awaitable[None]]) -> None:
    """Run a step outside the search once: record its decision, do the work, record its completion.

    An interrupted step is repeated under the same decision number, so recorded model answers are reused. While the run
    is paused, the step waits before it begins.
    """
    if context.state.is_task_done(task):
        return
    await context.signals.wait_to_continue()
    record_time_limit(context)
    decision_id = decision_number(context.recorder, RunTask(task=task))
    await work(context.models.make_client(decision_id, 0))
    context.recorder.append(TaskDone(k=decision_id))


A = TypeVar("A", bound=BaseModel)
In = TypeVar("In", bound=BaseModel)


async def ask_until_sound(
    client: ModelClient, role: Role[In, A], inputs: In, find_faults: Callable[[A], Iterable[str]], tries: int
) -> tuple[A | None, tuple[str, ...]]:
    """Return the first answer without faults, otherwise the last one (None: there is none) and its faults.

    The model sees the faults of its previous answer as `complaints`. If it gives no usable answer or the budget is
    spent, that is the last fault.
    """
    answer: A | None = None
    complaints: tuple[str, ...] = ()
    try:
        for _ in range(tries):
            answer = await client.ask(role, inputs.model_copy(update={"complaints": complaints}))
            complaints = tuple(find_faults(answer))
            if not complaints:
                break
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        complaints = (*complaints, f"the model gave no usable answer: {error}")
    return answer, complaints


def record_time_limit(context: RunContext) -> None:
    """Record that the run reached its time limit, unless its paper is already released."""
    if context.seconds_left() <= 0:
        record_limit(context.recorder, f"the time limit of {context.run_seconds:g} s was reached")


def record_limit(recorder: Recorder, reason: str) -> None:
    """Record once that the run reached a limit; building the paper for its release, and judging it, does not make the
    run partial, and the record behind the printed appendix stays as it is."""
    state = recorder.state
    measures = state.paper.version == 1 or bool(state.paper.reviews)
    if state.limit_reason is None and state.paper.released is None and measures and state.phase != "release":
        recorder.append(LimitReached(reason=reason))


def record_spent_budget(context: RunContext, failure: Failure | None) -> None:
    """Record that the run reached a limit if code failed because the budget for studied models is spent."""
    if failure is not None and failure.kind == "budget":
        record_limit(context.recorder, failure.message)


def decision_number(recorder: Recorder, action: RunTask) -> int:
    """Return the decision number of a step outside the search; a step without one gets the next number."""
    state = recorder.state
    decision_id = next((number for number, decided in state.decisions.items() if decided.action == action), None)
    if decision_id is None:
        decision_id = state.last_decision + 1
        recorder.append(DecisionMade(k=decision_id, action=action))
    return decision_id


RENDERING_FILES = ("models/client.py", "models/roles/")
"""The only modules of `models/` that process files of a node; the others process answers of models."""
RUN_LEVEL_FILES = (
    "agent/",
    "inspector/",
    "models/",
    "sandbox/cell_scheduler.py",
    "sandbox/executor.py",
    "record/event_log.py",
)
"""Modules in which an exception is never a node's failure; the executor itself handles errors in files left by code."""


class RepeatedFaultError(Exception):
    """Raised when several nodes hit the same internal error. Once the program is fixed, the run can be resumed."""


def as_node_failure(error: Exception) -> Failure:
    """Convert an exception to the failure of the current node. Raises `error` itself if it concerns the whole run."""
    passed = {file for file, _, _ in list_own_frames(error) if not file.startswith(RENDERING_FILES)}
    if isinstance(error, ModelError | RecordError | RepeatedFaultError) or any(
        file.startswith(RUN_LEVEL_FILES) for file in passed
    ):
        raise error
    return failure_from_error(error)


def raise_if_repeated(state: RunState, failure: Failure | None) -> None:
    """Raise `RepeatedFaultError` if a node failed with an internal error that other nodes hit before."""
    nodes = state.internal_faults.get(failure.ours, ()) if failure is not None and failure.ours else ()
    if failure is not None and len(nodes) >= MAX_NODES_PER_FAULT:
        raise RepeatedFaultError(
            f"internal error: the same exception occurred on nodes {', '.join(nodes)}: {failure.ours}; the record has "
            "the tracebacks ('scientist status RUN'); the run can be resumed, preferably with a version that fixes it"
        )


# Gates: points where a run waits until a person approves what comes next, if the settings ask for it. A gate is a
# pause: nothing new starts, work in flight finishes, no time limit counts, and stop requests work. That the gate was
# reached and who approved it are events, so a killed run waits at the same gate when it is resumed. A change made at
# a gate passes the same checks as the work of a model, and is recorded with its author.

COMES_NEXT: dict[GateName, str] = {
    "plan": "the data of the plan (data_plan.json) are fetched and the search begins",
    "lock": "the plan (data_plan.json) is locked and tested on fresh seeds; after that no hypothesis can change",
    "paper": "the paper is released",
}
CheckEdit = Callable[[CommandReceived], Awaitable[tuple[str, ...]]]
"""Checks the change of an approval; returns what is wrong with it, and applies it if nothing is."""


def is_gate_open(context: RunContext, gate: GateName, plan: DataPlan | None = None, more: str = "") -> bool:
    """Return whether the run may pass a gate. At a gate that it reaches now, record that it waits, and pause.

    `plan` is the plan to approve, if it is not recorded yet; `more` is added to what comes next.
    """
    if not context.state.has_gate(gate) or context.state.find_approval(gate) is not None:
        return True
    if gate not in context.state.gates:
        comes_next = "; ".join(filter(None, (COMES_NEXT[gate], more)))
        cost = context.forecast(context.state, plan)
        context.recorder.append(GateReached(gate=gate, comes_next=comes_next, cost=cost, plan=plan))
    context.signals.pause()
    return False


async def wait_at_gate(
    context: RunContext, gate: GateName, check: CheckEdit, plan: DataPlan | None = None, more: str = ""
) -> None:
    """Wait until a person approves, and apply the change of the approval, if any. Raises `StopRequested`."""
    while True:
        if is_gate_open(context, gate, plan, more):
            approval = context.state.find_approval(gate)
            if approval is None or not (faults := await check(approval)):
                return
            context.recorder.append(GateEditRefused(gate=gate, reasons=faults))
        elif not await context.signals.wait_to_continue():
            raise StopRequested
