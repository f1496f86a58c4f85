"""The settings of the sandbox, each with its default, unit and meaning."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _words(value: Any) -> Any:
    """A list however people write it: '0,1', 0 or [0, 1]."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    many = cast("list[Any] | tuple[Any, ...]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(str(one) if isinstance(one, int) else one for one in many)


def _switch(value: Any) -> Any:
    """YAML reads a bare on as true."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Switch = Annotated[Literal["off", "on"], BeforeValidator(_switch)]


class SandboxSettings(BaseModel):
    """How code is run. One value for all kernels of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    timeout: float = Field(default=3600.0, gt=0)
    """Seconds of wall clock that one experiment may take; its retry after a timeout gets search.retry_factor more."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds between the interrupt at the limit and the kill of the whole process group."""
    watch_seconds: float = Field(default=5.0, gt=0)
    """Seconds between two looks at what running code logs, for the pruning of hopeless experiments."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds until a kernel must be ready."""
    pool: int | None = Field(default=None, ge=0)
    """Kernels that wait, with what experiments import already imported; by default as many as run at a time, as far
    as a tenth of the memory holds them. 0: none. Experiments on a GPU start in kernels of their own all the same."""
    python: str = Field(default_factory=lambda: sys.executable)
    """Interpreter of the kernels; it needs ipykernel and whatever experiments import."""
    isolation: Literal["required", "auto", "none"] = "required"
    """Whether code runs behind walls (docs/sandbox.md). "required" refuses to begin where that cannot be; "auto" then
    runs it without them, says so in record and paper, and grades nothing `scored`; "none" never isolates."""
    network: Switch = "off"
    """Whether code reaches the network. With "on" nothing is graded `scored`: public labels are within reach."""
    readable: Words = ()
    """Further folders that isolated code may read, as your own packages. It reads everything in them."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Memory (10^9 bytes) of one experiment. By default nine tenths of the machine's, shared by the places."""
    disk_gb: float = Field(default=20.0, gt=0)
    """Bytes (10^9) of all files that one experiment leaves in its folder, /tmp and the run's cache."""
    file_gb: float = Field(default=8.0, gt=0)
    """Bytes (10^9) of one file that it writes."""
    shm_gb: float = Field(default=8.0, gt=0)
    """Size (10^9 bytes) of its /dev/shm, through which data loaders hand on batches. It counts as memory once used."""
    tasks: int = Field(default=1024, ge=32)
    """Processes and threads that it may have at the same time."""
    output_gb: float = Field(default=1.0, gt=0)
    """Output (10^9 characters) after which it is killed."""
    device: Literal["cpu", "cuda"] = "cpu"
    """What `lab.device` says. With "cpu", GPUs are hidden from the code."""
    gpus: Words = ()
    """GPUs that may be used, as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; flag --gpus. Empty: all."""
    places_per_gpu: int = Field(default=1, ge=1)
    """Experiments that share one GPU. With 1, each has its GPU alone among your runs on this machine."""
    gpus_per_node: int = Field(default=1, ge=1)
    """GPUs of one experiment; with more than 1 it starts its processes with `lab.launch`."""
    gpu_free_gb: float = Field(default=2.0, ge=0)
    """Free memory (10^9 bytes) that a GPU must have before an experiment starts on it."""
    gpu_wait: float = Field(default=3600.0, ge=0)
    """Seconds to wait for a GPU that others hold, or a process that does not end, while no code of ours runs on one;
    then the run ends."""
    meter_seconds: float = Field(default=1.0, gt=0)
    """Seconds between two looks at the memory that experiments use."""
    threads: int = Field(default=1, ge=1)
    """Threads of OpenMP, MKL and torch. Results may differ in the last bits between numbers of threads."""
    deterministic: bool = False
    """Whether torch may only use operations whose result is the same each time, also on a GPU; one that has no such
    form then raises. `reproduce` demands equal digits on the same model of GPU where this was on."""
    output_chars: int = Field(default=200_000, ge=1000)
    """Characters of output that are kept, half from the beginning and half from the end; the rest is counted."""
    tail_chars: int = Field(default=4000, ge=100)
    """Characters of output that an outcome carries, from the end."""
    traceback_chars: int = Field(default=8000, ge=500)
    """Characters of a traceback, cut from the middle."""
    file_bytes: int = Field(default=256 * 2**20, ge=1024)
    """Bytes of one file that the code leaves (an array, a submission, its measurements). Larger ones are refused."""
    figure_bytes: int = Field(default=20 * 2**20, ge=1024)
    """Bytes of one figure."""
    checkpoint_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of all checkpoints of one attempt. Beyond them `lab.checkpoint` refuses."""
    artifact_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of all artifacts of one attempt. Beyond them `lab.save_artifact` refuses."""
    pretrained: Words = ()
    """Pretrained models for `lab.pretrained`, as OWNER/NAME@REVISION: fetched from the hub before the run."""
    pretrained_bytes: int = Field(default=40 * 2**30, ge=1024)
    """Bytes of one pretrained model. Larger ones are refused."""
    scorers: Words = ()
    """Scorers of your own for datasets that come with us, as DATASET=FILE.py:FUNCTION (docs/evidence.md)."""
    scorer_timeout: float = Field(default=900.0, gt=0)
    """Seconds of wall clock that a scorer of your own may take for one experiment, dataset and split."""
    data_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of one dataset of your own, as a file and as arrays in memory. Larger ones are refused."""
