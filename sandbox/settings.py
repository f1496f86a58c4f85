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


def resolve_scorers(value: Any, folder: Path) -> Any:
    """Resolve relative paths in the scorers setting against `folder`; invalid forms are left for validation."""
    if not isinstance(value, str | list | tuple):
        return value
    pairs = [str(text).strip().partition("=") for text in _parse_word_list(value)]
    return tuple(f"{name}={folder / Path(place).expanduser()}" if equals else name for name, equals, place in pairs)


WordList = Annotated[tuple[str, ...], BeforeValidator(_parse_word_list)]
OnOff = Annotated[Literal["off", "on"], BeforeValidator(lambda value: {True: "on", False: "off"}.get(value, value))]


class SandboxSettings(BaseModel, frozen=True):
    """Settings for running experiment code. The settings are the same for all kernels of a run."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    executor: Literal["local", "ray"] = "local"
    """Where experiments run: on this machine or on a Ray cluster (docs/hardware.md)."""
    ray: str = ""
    """Address of the Ray cluster, HOST:PORT, or auto for the one that this machine belongs to; --ray also sets the
    executor. Empty: Ray is started on this machine.
    """
    store: Path | None = None
    """Content-addressed cache of datasets, models, packages and source trees; default: ~/.cache/scientist/store. On
    a cluster, it is the same path on each machine, shared or local.
    """
    timeout: float = Field(default=3600.0, gt=0)
    """Wall-clock seconds of one experiment, or such as 90s or 2h; a retry after a timeout gets 1.5 times as long."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds between the interrupt at the limit and killing the process group."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds within which a kernel must start."""
    python: str = Field(default_factory=lambda: sys.executable)
    """Python interpreter of the kernels; it needs ipykernel and the packages that experiments import."""
    isolation: Literal["required", "auto", "none"] = "required"
    """Whether code runs in a sandbox (docs/sandbox.md). If no sandbox is available, "required" refuses to start; "auto"
    runs code without one, discloses that in the record and paper, and grades nothing `scored`. "none" never isolates.
    """
    network: OnOff = "off"
    """Whether code has network access. With "on", nothing is graded `scored`, since code could download public labels.
    """
    readable: WordList = ()
    """Additional folders that sandboxed code may read in full, such as your own packages."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Memory limit of one experiment (10^9 bytes). Default: 90 % of the machine's memory, divided by the slots."""
    disk_gb: float = Field(default=20.0, gt=0)
    """Disk limit of one experiment (10^9 bytes): all files in its folder, /tmp and the run's cache, and each single
    file."""
    tasks: int = Field(default=1024, ge=32)
    """Maximum concurrent processes and threads of one experiment."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Value of `lab.device`. With "cpu", GPUs are hidden from the code."""
    gpus: WordList = ()
    """GPUs to use, such as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; --gpus also sets the device.
    Empty: all."""
    slots_per_gpu: int = Field(default=1, ge=1)
    """Experiments that share one GPU. With 1, no other experiment of your runs on this machine uses the same GPU."""
    gpus_per_node: int = Field(default=1, ge=1)
    """GPUs per experiment; with more than 1, the experiment starts its processes with `lab.launch`."""
    gpu_free_gb: float = Field(default=2.0, ge=0)
    """Free memory (10^9 bytes) that a GPU must have before an experiment starts on it."""
    gpu_wait: float = Field(default=3600.0, ge=0)
    """Seconds to wait for a GPU used by others, or for a process that does not exit, while no experiment of this run
    is on a GPU; then the run ends."""
    threads: int = Field(default=1, ge=1)
    """Threads of OpenMP, MKL and torch. Results may differ in the last bits if this changes."""
    deterministic: bool = False
    """Whether torch must use deterministic operations, also on a GPU; operations without a deterministic version raise.
    `reproduce` requires equal digits on the same GPU model if this was on."""
    checkpoint_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Total bytes of checkpoints per attempt; beyond it, `lab.checkpoint` raises."""
    artifact_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Total bytes of artifacts per attempt; beyond it, `lab.save_artifact` raises."""
    pretrained: WordList = ()
    """Pretrained models for `lab.pretrained`, as OWNER/NAME@REVISION, downloaded from the Hub before the run."""
    packages: WordList = ()
    """Additional packages to install for experiments, as NAME or NAME==VERSION (docs/sandbox.md)."""
    allowed: WordList = ()
    """Items that the planner may request: packages as above, models as model:OWNER/NAME@REVISION, Hub datasets as
    data:NAME=hf:OWNER/SET.
    """
    scorers: WordList = ()
    """Your own scorers, as DATASET=FILE.py:FUNCTION (docs/statistics.md)."""
    scorer_timeout: float = Field(default=900.0, gt=0)
    """Wall-clock seconds that your scorer may take per experiment, dataset and split."""
    data_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Maximum bytes of one of your datasets, as a file and as arrays in memory; larger ones are rejected."""
