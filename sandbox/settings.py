"""The settings of the sandbox, each with its default, unit and meaning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _parse_word_list(value: Any) -> Any:
    """A list however people write it: '0,1', 0 or [0, 1]."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    many = cast("list[Any] | tuple[Any, ...]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(str(item) if isinstance(item, int) else item for item in many)


def _parse_switch(value: Any) -> Any:
    """YAML reads a bare on as true."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def resolve_scorers(value: Any, folder: Path) -> Any:
    """What a setting names as scorers, its relative paths seen from `folder`; other forms the settings refuse."""
    if not isinstance(value, str | list | tuple):
        return value
    pairs = [str(text).strip().partition("=") for text in _parse_word_list(value)]
    return tuple(f"{name}={folder / Path(place).expanduser()}" if equals else name for name, equals, place in pairs)


WordList = Annotated[tuple[str, ...], BeforeValidator(_parse_word_list)]
OnOff = Annotated[Literal["off", "on"], BeforeValidator(_parse_switch)]


class SandboxSettings(BaseModel):
    """How code is run. One value for all kernels of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    executor: Literal["local", "ray"] = "local"
    """Where experiments run: on this machine, or on those of a Ray cluster (docs/hardware.md)."""
    ray: str = ""
    """Address of that cluster, HOST:PORT; flag --ray, which also sets the executor. This machine must be one of its."""
    store: Path | None = None
    """Folder in which datasets, models, packages and trees are kept once by their content; by default
    ~/.cache/scientist/store. Of a cluster: the same path on each machine, a mount or local."""
    timeout: float = Field(default=3600.0, gt=0)
    """Seconds of wall clock that one experiment may take; its retry after a timeout gets half as much again."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds between the interrupt at the limit and the kill of the whole process group."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds in which a kernel must become ready."""
    pool: int | None = Field(default=None, ge=0)
    """Kernels kept ready, with the usual imports done; by default one. 0: none. Experiments on a GPU
    start in kernels of their own all the same."""
    python: str = Field(default_factory=lambda: sys.executable)
    """Interpreter of the kernels; it needs ipykernel and whatever experiments import."""
    isolation: Literal["required", "auto", "none"] = "required"
    """Whether code runs in a sandbox (docs/sandbox.md). "required" refuses to begin where that cannot be; "auto" then
    runs it without one, says so in record and paper, and grades nothing `scored`; "none" never isolates."""
    network: OnOff = "off"
    """Whether code reaches the network. With "on" nothing is graded `scored`: public labels are within reach."""
    readable: WordList = ()
    """More folders that isolated code may read, such as your own packages. It reads everything in them."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Memory (10^9 bytes) of one experiment. By default nine tenths of the machine's, shared by the slots."""
    disk_gb: float = Field(default=20.0, gt=0)
    """Bytes (10^9) of all files that one experiment leaves in its folder, /tmp and the run's cache, and of one file."""
    tasks: int = Field(default=1024, ge=32)
    """Processes and threads that it may have at the same time."""
    device: Literal["cpu", "cuda"] = "cpu"
    """What `lab.device` says. With "cpu", GPUs are hidden from the code."""
    gpus: WordList = ()
    """GPUs that may be used, such as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; flag --gpus. Empty: all."""
    slots_per_gpu: int = Field(default=1, ge=1)
    """Experiments that share one GPU. With 1, each has its GPU alone among your runs on this machine."""
    gpus_per_node: int = Field(default=1, ge=1)
    """GPUs of one experiment; with more than 1 it starts its processes with `lab.launch`."""
    gpu_free_gb: float = Field(default=2.0, ge=0)
    """Free memory (10^9 bytes) that a GPU must have before an experiment starts on it."""
    gpu_wait: float = Field(default=3600.0, ge=0)
    """Seconds to wait for a GPU that others hold, or a process that does not end, while no code of ours runs on one;
    then the run ends."""
    threads: int = Field(default=1, ge=1)
    """Threads of OpenMP, MKL and torch. Results may differ in the last bits between numbers of threads."""
    deterministic: bool = False
    """Whether torch may only use operations whose result is the same each time, also on a GPU; one that has no such
    form then raises. `reproduce` demands equal digits on the same model of GPU where this was on."""
    checkpoint_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of all checkpoints of one attempt. Beyond them `lab.checkpoint` refuses."""
    artifact_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of all artifacts of one attempt. Beyond them `lab.save_artifact` refuses."""
    pretrained: WordList = ()
    """Pretrained models for `lab.pretrained`, as OWNER/NAME@REVISION: fetched from the hub before the run."""
    packages: WordList = ()
    """Packages that experiments import beside those of the interpreter, as NAME, NAME==VERSION or NAME:sdist (may be
    built from its source): installed for the run (docs/sandbox.md)."""
    allowed: WordList = ()
    """What the planner may ask for: packages as above, models as model:OWNER/NAME@REVISION, datasets of the hub as
    data:NAME=hf:OWNER/SET."""
    scorers: WordList = ()
    """Scorers of your own, as DATASET=FILE.py:FUNCTION (docs/statistics.md)."""
    scorer_timeout: float = Field(default=900.0, gt=0)
    """Seconds of wall clock that a scorer of your own may take for one experiment, dataset and split."""
    data_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of one dataset of your own, as a file and as arrays in memory. Larger ones are refused."""
