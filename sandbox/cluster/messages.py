"""What is said between the head and a place on another machine: JSON, and never a pickled object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from labwright.record.schema.cell import Cell, TrainingCounts
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.job import ExecutionProgress, Job
from labwright.sandbox.output import MAX_KEPT_CHARS, Transcript
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.settings import SandboxSettings


class WireMessage(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="constants", val_json_bytes="base64", ser_json_bytes="base64"
    )

    @property
    def encoded(self) -> bytes:
        """As it travels."""
        return self.model_dump_json().encode()

    @classmethod
    def decode(cls, sent: bytes) -> Self:
        return cls.model_validate_json(sent)


class MachineFacts(WireMessage):
    """What a machine of the cluster says of itself."""

    node: str = ""
    """Ray's id of it."""
    host: str
    address: str = ""
    version: str
    """Of our own code: a hash of it."""
    environment_fingerprint: str
    """As `Executor.ground`; empty where the interpreter does not run."""
    isolation_fault: str
    """Empty where code is isolated as the settings want it; else why not."""
    tokens: bool
    """Whether its Ray asks for a token."""
    cpus: float = 0.0
    gpus: float = 0.0
    devices: tuple[GpuDevice, ...] = ()
    memory: int
    """Bytes."""
    slots: int = 0
    """Experiments that fit at a time."""


class WorkerTerms(WireMessage):
    """On what terms code runs at a place."""

    settings: SandboxSettings
    run: str
    """What tells this run's folders on a machine from others'."""
    slots: dict[str, int] = {}
    """Machine -> experiments that share its memory."""
    secret: tuple[Path, ...] = ()
    watch_seconds: float
    """Between two looks at what running code logs."""


class RemoteTaskSpec(WireMessage):
    """One script or command, whose folder travels before it."""

    name: str
    now: float
    """Seconds since 1970, by the clock of the head."""
    needs: ResourceNeeds
    alone: bool
    command: CommandJob | None = None
    packages: str = ""
    """Key of what was installed for it beside the interpreter's; empty: nothing was."""
    script_fields: dict[str, Any] = {}
    """Of its `Script` and `Job`, those that are plain."""
    cell: Cell | None = None
    visible_datasets: tuple[str, ...] = ()
    views: dict[str, str] = {}
    """Dataset -> key."""
    pretrained: dict[str, str] = {}
    watched: bool = False
    setting: dict[str, Any] = {}
    """Hyperparameters of the cell."""


_JOB_FIELDS = ("entry", "mode", "seed", "timeout", "subjects", "key", "rungs_by", "source")
_SCRIPT_FIELDS = ("artifacts", "scorers", "resumed", "readable", "tree", "arms")


def build_task_spec(script: KernelScript, **more: Any) -> RemoteTaskSpec:
    """The order for a script."""
    job = script.job
    return RemoteTaskSpec(
        name=job.name,
        needs=job.compute_max_needs(),
        alone=job.alone,
        cell=script.cell,
        setting=dict(job.settings.get(script.cell, {})) if script.cell is not None else {},
        script_fields={name: getattr(job, name) for name in _JOB_FIELDS}
        | {f"script_{name}": getattr(script, name) for name in _SCRIPT_FIELDS},
        **more,
    )


def build_script(
    spec: RemoteTaskSpec, folder: Path, *, views: dict[str, str], pretrained: dict[str, str]
) -> KernelScript:
    """The script of an order, in its folder on this machine."""
    fields, cell = spec.script_fields, spec.cell
    job = Job(
        name=spec.name,
        folder=folder,
        alone=spec.alone,
        needs={cell.arm if cell is not None else "": spec.needs},
        settings={} if cell is None else {cell: spec.setting},
        **{name: fields[name] for name in _JOB_FIELDS},
    )
    job = replace(job, subjects=tuple(job.subjects))
    held: dict[str, Any] = {name: fields[f"script_{name}"] for name in _SCRIPT_FIELDS}
    held |= {"readable": tuple(map(Path, held["readable"])), "scorers": tuple(held["scorers"])}
    return KernelScript(job, folder, views=views, pretrained=pretrained, cell=cell, **held)


class PollRequest(WireMessage):
    """What the head asks of a place that works: to say what is new within so many seconds."""

    seconds: float
    reason: str = ""
    """Why the code is to be ended."""


class TaskResult(WireMessage):
    """What came of an order; its folder is fetched next."""

    size: int
    sha256: str
    """Of the parcel."""
    seconds: float = 0.0
    failure: Failure | None = None
    transcript_state: dict[str, Any] = {}
    """`Transcript.state`."""
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    kernel_unusable: bool = True
    training: TrainingCounts | None = None
    is_first_cell: bool = False
    command_outcome: CommandOutcome | None = None
    """Of a command."""

    @classmethod
    def from_execution(cls, execution: KernelExecution, **parcel: Any) -> Self:
        names = ("seconds", "failure", "peak_host_bytes", "peak_gpu_bytes", "over", "training", "first")
        return cls(
            **{name: getattr(execution, name) for name in names},
            transcript_state=execution.transcript.to_state(),
            **parcel,
        )

    @property
    def as_execution(self) -> KernelExecution:
        return KernelExecution(
            self.seconds,
            self.failure,
            Transcript.from_state(self.transcript_state, MAX_KEPT_CHARS),
            self.peak_host_bytes,
            self.peak_gpu_bytes,
            kernel_unusable=self.kernel_unusable,
            training=self.training,
            is_first_cell=self.is_first_cell,
        )


class PollResponse(WireMessage):
    """What a place says while it works."""

    has_started: bool = False
    output: str = ""
    """Output since the last time."""
    progress: tuple[ExecutionProgress, ...] = ()
    result: TaskResult | None = None
    error: str = ""
    """Why the order could not be carried out: an `ExecutorError` there."""


ContentKind = Literal["view", "pretrained", "packages"]
