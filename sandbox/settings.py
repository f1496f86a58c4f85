"""Settings of the sandbox, each with its default, unit and meaning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _parse_word_list(value: Any) -> Any:
    """Parse a list in any common notation: '0,1', 0 or [0, 1]."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    many = cast("list[Any] | tuple[Any, ...]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(str(item) if isinstance(item, int) else item for item in many)


def _parse_switch(value: Any) -> Any:
    """Undo YAML's conversion of a bare on or off to a boolean."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def resolve_scorers(value: Any, folder: Path) -> Any:
    """Resolve relative paths in the scorers setting against `folder`; invalid forms are left for validation."""
    if not isinstance(value, str | list | tuple):
        return value
    pairs = [str(text).strip().partition("=") for text in _parse_word_list(value)]
    return tuple(f"{name}={folder / Path(place).expanduser()}" if equals else name for name, equals, place in pairs)


WordList = Annotated[tuple[str, ...], BeforeValidator(_parse_word_list)]
OnOff = Annotated[Literal["off", "on"], BeforeValidator(_parse_switch)]


class SandboxSettings(BaseModel):
    """How experiment code runs. The same for all kernels of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    executor: Literal["local", "ray"] = "local"
    """Where experiments run: on this machine, or on a Ray cluster (docs/hardware.md)."""
    ray: str = ""
    """Address of the Ray cluster, HOST:PORT; flag --ray, which also sets the executor. This machine must belong to the
    cluster."""
    store: Path | None = None
    """Folder of the shared cache of datasets, models, packages and repositories; by default ~/.cache/scientist/store.
    On a cluster: the same path on each machine, mounted or local."""
    timeout: float = Field(default=3600.0, gt=0)
    """Seconds of wall clock that one experiment may take; its retry after a timeout gets 50 % more."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds between the interrupt at the time limit and the kill of the whole process group."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds in which a kernel must become ready."""
    pool: int | None = Field(default=None, ge=0)
    """Kernels kept ready with common imports preloaded; by default one, 0 for none. Experiments on a GPU always start a
    new kernel."""
    python: str = Field(default_factory=lambda: sys.executable)
    """Interpreter of the kernels; it needs ipykernel and the packages that experiments import."""
    isolation: Literal["required", "auto", "none"] = "required"
    """Whether experiments run in a sandbox (docs/sandbox.md). "required" refuses to start if that is not possible;
    "auto" then runs them without isolation, says so in record and paper, and grades no value `scored`; "none" never
    isolates."""
    network: OnOff = "off"
    """Whether experiments can reach the network. With "on", no value is graded `scored`, because public labels are
    accessible."""
    readable: WordList = ()
    """Further folders that isolated code may read, such as your own packages, including everything in them."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Memory (10^9 bytes) of one experiment. By default 90 % of the machine's memory, divided by the number of
    slots."""
    disk_gb: float = Field(default=20.0, gt=0)
    """Disk space (10^9 bytes) that one experiment may use in its folder, /tmp and the run's cache; also the size limit
    of a file."""
    tasks: int = Field(default=1024, ge=32)
    """Number of processes and threads that one experiment may have at the same time."""
    device: Literal["cpu", "cuda"] = "cpu"
    """The value of `lab.device`. With "cpu", GPUs are hidden from the code."""
    gpus: WordList = ()
    """GPUs to use, such as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; flag --gpus. Empty: all."""
    slots_per_gpu: int = Field(default=1, ge=1)
    """Experiments that share one GPU. With 1, no two experiments of your runs on this machine share a GPU."""
    gpus_per_node: int = Field(default=1, ge=1)
    """GPUs per experiment; with more than 1, code starts its processes with `lab.launch`."""
    gpu_free_gb: float = Field(default=2.0, ge=0)
    """Free memory (10^9 bytes) that a GPU must have before an experiment starts on it."""
    gpu_wait: float = Field(default=3600.0, ge=0)
    """Seconds to wait for a GPU that is in use elsewhere, or for a process that does not exit, while this run uses
    none; then the run ends."""
    threads: int = Field(default=1, ge=1)
    """Threads of OpenMP, MKL and torch. Results may differ in the last bits between numbers of threads."""
    deterministic: bool = False
    """Whether torch may only use deterministic operations, also on a GPU; other operations raise an error. With this
    on, `reproduce` requires equal digits on the same GPU model."""
    checkpoint_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Size limit (bytes) of all checkpoints of one attempt; `lab.checkpoint` raises beyond it."""
    artifact_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Size limit (bytes) of all artifacts of one attempt; `lab.save_artifact` raises beyond it."""
    pretrained: WordList = ()
    """Pretrained models for `lab.pretrained`, as OWNER/NAME@REVISION; fetched from the hub before the run."""
    packages: WordList = ()
    """Packages to install for experiments besides those of the interpreter, as NAME, NAME==VERSION or NAME:sdist (may
    be built from source) (docs/sandbox.md)."""
    allowed: WordList = ()
    """What the planner may request: packages as above, models as model:OWNER/NAME@REVISION, hub datasets as
    data:NAME=hf:OWNER/SET."""
    scorers: WordList = ()
    """Your own scorers, as DATASET=FILE.py:FUNCTION (docs/statistics.md)."""
    scorer_timeout: float = Field(default=900.0, gt=0)
    """Seconds of wall clock that your scorer may take per experiment, dataset and split."""
    data_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Size limit (bytes) of one of your datasets, as a file and as arrays in memory."""
