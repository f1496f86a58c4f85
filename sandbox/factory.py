"""Create the executor that the settings request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.settings import SandboxSettings


def open_executor(slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> LocalExecutor:
    """Return a `LocalExecutor`, or a `RayExecutor` that uses a cluster. Raises the errors of their constructors."""
    if settings.executor == "local":
        return LocalExecutor(slots, views, settings=settings, **rest)
    from labwright.sandbox.cluster.executor import RayExecutor  # not needed on a single machine

    return RayExecutor(slots, views, settings=settings, **rest)
