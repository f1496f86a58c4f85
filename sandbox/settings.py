"""The settings of the sandbox, each with its default, unit and meaning."""

from __future__ import annotations

import sys
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SandboxSettings(BaseModel):
    """How code is run. One value for all kernels of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    timeout: float = Field(default=3600.0, gt=0)
    """Seconds of wall clock that one execution may take; a job may ask for less."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds between the interrupt at the limit and the kill of the whole process group."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds until a kernel must be ready."""
    python: str = Field(default_factory=lambda: sys.executable)
    """Interpreter of the kernels; it needs ipykernel and whatever experiments import."""
    device: Literal["cpu", "cuda"] = "cpu"
    """What `lab.device` says. With "cpu", GPUs are hidden from the code."""
    threads: int = Field(default=1, ge=1)
    """Threads of OpenMP, MKL and torch. Results may differ in the last bits between numbers of threads."""
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
    data_bytes: int = Field(default=2 * 2**30, ge=1024)
    """Bytes of one dataset of your own, as a file and as arrays in memory. Larger ones are refused."""
