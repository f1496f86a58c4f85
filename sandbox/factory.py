"""Create the executor that the settings request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.settings import SandboxSettings


def open_executor(slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> LocalExecutor:
    """Return a `LocalExecutor`, or a `RayExecutor` if the settings ask for a cluster. Raises the errors of its
    constructor."""
    if settings.executor == "ray":
        from labwright.sandbox.cluster.executor import RayExecutor  # only needed on a cluster

        return RayExecutor(slots, views, settings=settings, **rest)
    return LocalExecutor(slots, views, settings=settings, **rest)
