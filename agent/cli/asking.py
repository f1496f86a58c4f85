"""Asking a model from the command line outside of any run: what it answers is lost unless somebody writes it down."""

from __future__ import annotations

import time

from models.client import Models
from models.failover import open_backend
from models.settings import ModelSettings
from record.log import MemoryLog


def open_model(settings: ModelSettings, log: MemoryLog | None = None) -> Models:
    """The model of some settings; `log` says what its answers took. Raises `ModelConfigError`."""
    return Models(open_backend(settings), log or MemoryLog(), settings, time.monotonic)
