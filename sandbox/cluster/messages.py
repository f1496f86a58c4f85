"""Messages between the head node and a remote worker: JSON, never pickled objects."""

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
        """The JSON bytes of the message."""
        return self.model_dump_json().encode()

    @classmethod
    def decode(cls, sent: bytes) -> Self:
        return cls.model_validate_json(sent)


class MachineFacts(WireMessage):
    """Facts that a machine of the cluster reports about itself."""

    node: str = ""
    """Ray's node id."""
    host: str
    address: str = ""
    version: str
    """Hash of the installed `scientist` code."""
    environment_fingerprint: str
    """As `Executor.environment_fingerprint`; empty if the interpreter does not run."""
    isolation_fault: str
    """The reason why code cannot be isolated as the settings require; empty if it can."""
    tokens: bool
    """Whether its Ray requires a token."""
    cpus: float = 0.0
    gpus: float = 0.0
    devices: tuple[GpuDevice, ...] = ()
    memory: int
    """Memory in bytes."""
    slots: int = 0
    """Number of experiments that can run at once."""


class WorkerTerms(WireMessage):
    """Settings under which a worker runs code."""

    settings: SandboxSettings
    run: str
    """Identifies the folders of this run on a machine."""
    slots: dict[str, int] = {}
    """Machine -> number of experiments that share its memory."""
    secret: tuple[Path, ...] = ()
    watch_seconds: float
    """Seconds between two checks of logged progress."""


class RemoteTaskSpec(WireMessage):
    """One script or command; its folder is sent first."""

    name: str
    now: float
    """Seconds since 1970 by the head node's clock."""
    needs: ResourceNeeds
    alone: bool
    command: CommandJob | None = None
    packages: str = ""
    """Store key of the packages installed in addition to the interpreter's; empty if there are none."""
    script_fields: dict[str, Any] = {}
    """Fields of its `KernelScript` and `Job` that are plain JSON values."""
    cell: Cell | None = None
    visible_datasets: tuple[str, ...] = ()
    views: dict[str, str] = {}
    """Dataset -> store key of its view."""
    pretrained: dict[str, str] = {}
    watched: bool = False
    setting: dict[str, Any] = {}
    """Hyperparameters of the cell."""


_JOB_FIELDS = ("entry", "mode", "seed", "timeout", "subjects", "key", "rungs_by", "source")
_SCRIPT_FIELDS = ("artifacts", "scorers", "resumed", "readable", "tree", "arms")


def build_task_spec(script: KernelScript, **more: Any) -> RemoteTaskSpec:
    """Build the task that runs a script."""
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
    """Rebuild the script of a task in its folder on this machine."""
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
    script_fields: dict[str, Any] = {name: fields[f"script_{name}"] for name in _SCRIPT_FIELDS}
    script_fields |= {
        "readable": tuple(map(Path, script_fields["readable"])),
        "scorers": tuple(script_fields["scorers"]),
    }
    return KernelScript(job, folder, views=views, pretrained=pretrained, cell=cell, **script_fields)


class PollRequest(WireMessage):
    """A request for news from a worker; the worker answers within `seconds`."""

    seconds: float
    reason: str = ""
    """The reason why the code must be stopped; empty if it may continue."""


class TaskResult(WireMessage):
    """Result of a task; its output folder is fetched separately."""

    size: int
    sha256: str
    """Sha256 of the output archive."""
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
    """Set for commands only."""

    @classmethod
    def from_execution(cls, execution: KernelExecution, **archive: Any) -> Self:
        names = (
            "seconds",
            "failure",
            "peak_host_bytes",
            "peak_gpu_bytes",
            "kernel_unusable",
            "training",
            "is_first_cell",
        )
        return cls(
            **{name: getattr(execution, name) for name in names},
            transcript_state=execution.transcript.to_state(),
            **archive,
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
    """News from a worker while it runs a task."""

    has_started: bool = False
    output: str = ""
    """Output since the last poll."""
    progress: tuple[ExecutionProgress, ...] = ()
    result: TaskResult | None = None
    error: str = ""
    """Message of the `ExecutorError` that stopped the task on the worker."""


ContentKind = Literal["view", "pretrained", "packages"]
