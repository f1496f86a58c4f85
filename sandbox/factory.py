"""Create the executor that the settings request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labwright.sandbox.errors import ClusterError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.settings import SandboxSettings


def open_executor(slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> LocalExecutor:
    """Return a `LocalExecutor`. Raises the errors of its constructor, `ClusterError`."""
    refuse_cluster(settings)
    return LocalExecutor(slots, views, settings=settings, **rest)


def refuse_cluster(settings: SandboxSettings) -> None:
    """Raise `ClusterError` if the settings ask for a cluster."""
    if settings.executor == "ray":
        raise ClusterError("this version runs experiments on one machine only: omit --ray and sandbox.executor=ray")
