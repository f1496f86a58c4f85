"""The executor that the settings ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.settings import SandboxSettings


def open_executor(slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> LocalExecutor:
    """A `LocalExecutor`, or one over the machines of a cluster. Raises as they do."""
    if settings.executor == "local":
        return LocalExecutor(slots, views, settings=settings, **rest)
    from labwright.sandbox.cluster.executor import RayExecutor  # what a run on one machine does without

    return RayExecutor(slots, views, settings=settings, **rest)
