"""What is said between the head and a place on another machine: JSON, and never a pickled object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from labwright.record.nouns.cells import Cell, Training
from labwright.record.nouns.data import Needs
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.gpus import Device
from labwright.sandbox.job import Job, Progress
from labwright.sandbox.output import OUTPUT_CHARS, Transcript
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.settings import SandboxSettings


class Message(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="constants", val_json_bytes="base64", ser_json_bytes="base64"
    )

    @property
    def sent(self) -> bytes:
        """As it travels."""
        return self.model_dump_json().encode()

    @classmethod
    def read(cls, sent: bytes) -> Self:
        return cls.model_validate_json(sent)


class Facts(Message):
    """What a machine of the cluster says of itself."""

    node: str = ""
    """Ray's id of it."""
    host: str
    address: str = ""
    version: str
    """Of our own code: a hash of it."""
    ground: str
    """As `Executor.ground`; empty where the interpreter does not run."""
    walls: str
    """Empty where code is isolated as the settings want it; else why not."""
    tokens: bool
    """Whether its Ray asks for a token."""
    cpus: float = 0.0
    gpus: float = 0.0
    devices: tuple[Device, ...] = ()
    memory: int
    """Bytes."""
    places: int = 0
    """Experiments that fit at a time."""


class Terms(Message):
    """On what terms code runs at a place."""

    settings: SandboxSettings
    run: str
    """What tells this run's folders on a machine from others'."""
    slots: dict[str, int] = {}
    """Machine -> experiments that share its memory."""
    secret: tuple[Path, ...] = ()
    watch_seconds: float
    """Between two looks at what running code logs."""


class Order(Message):
    """One script or command, whose folder travels before it."""

    name: str
    now: float
    """Seconds since 1970, by the clock of the head."""
    needs: Needs
    alone: bool
    command: CommandJob | None = None
    packages: str = ""
    """Key of what was installed for it beside the interpreter's; empty: nothing was."""
    fields: dict[str, Any] = {}
    """Of its `Script` and `Job`, those that are plain."""
    cell: Cell | None = None
    sees: tuple[str, ...] = ()
    views: dict[str, str] = {}
    """Dataset -> key."""
    pretrained: dict[str, str] = {}
    watched: bool = False
    setting: dict[str, Any] = {}
    """Hyperparameters of the cell."""


_JOB = ("entry", "mode", "seed", "timeout", "subjects", "key", "rungs_by", "source")
_SCRIPT = ("artifacts", "scorers", "resumed", "readable", "tree", "arms")


def order_of(script: Script, **more: Any) -> Order:
    """The order for a script."""
    job = script.job
    return Order(
        name=job.name,
        needs=job.most_needed(),
        alone=job.alone,
        cell=script.cell,
        setting=dict(job.settings.get(script.cell, {})) if script.cell is not None else {},
        fields={name: getattr(job, name) for name in _JOB}
        | {f"script_{name}": getattr(script, name) for name in _SCRIPT},
        **more,
    )


def script_of(order: Order, folder: Path, *, views: dict[str, str], pretrained: dict[str, str]) -> Script:
    """The script of an order, in its folder on this machine."""
    fields, cell = order.fields, order.cell
    job = Job(
        name=order.name,
        folder=folder,
        alone=order.alone,
        needs={cell.arm if cell is not None else "": order.needs},
        settings={} if cell is None else {cell: order.setting},
        **{name: fields[name] for name in _JOB},
    )
    job = replace(job, subjects=tuple(job.subjects))
    held: dict[str, Any] = {name: fields[f"script_{name}"] for name in _SCRIPT}
    held |= {"readable": tuple(map(Path, held["readable"])), "scorers": tuple(held["scorers"])}
    return Script(job, folder, views=views, pretrained=pretrained, cell=cell, **held)


class Wish(Message):
    """What the head asks of a place that works: to say what is new within so many seconds."""

    seconds: float
    reason: str = ""
    """Why the code is to be ended."""


class Done(Message):
    """What came of an order; its folder is fetched next."""

    size: int
    sha256: str
    """Of the parcel."""
    seconds: float = 0.0
    failure: Failure | None = None
    printed: dict[str, Any] = {}
    """`Transcript.state`."""
    peak_host_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    over: bool = True
    training: Training | None = None
    first: bool = False
    outcome: CommandOutcome | None = None
    """Of a command."""

    @classmethod
    def of(cls, execution: Execution, **parcel: Any) -> Self:
        names = ("seconds", "failure", "peak_host_bytes", "peak_gpu_bytes", "over", "training", "first")
        return cls(**{name: getattr(execution, name) for name in names}, printed=execution.transcript.state(), **parcel)

    @property
    def execution(self) -> Execution:
        return Execution(
            self.seconds,
            self.failure,
            Transcript.of(self.printed, OUTPUT_CHARS),
            self.peak_host_bytes,
            self.peak_gpu_bytes,
            over=self.over,
            training=self.training,
            first=self.first,
        )


class News(Message):
    """What a place says while it works."""

    begun: bool = False
    shown: str = ""
    """Output since the last time."""
    glances: tuple[Progress, ...] = ()
    done: Done | None = None
    error: str = ""
    """Why the order could not be carried out: an `ExecutorError` there."""


Kind = Literal["view", "pretrained", "packages"]
