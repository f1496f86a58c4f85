"""What a kernel sees: its interpreter, its folder, its data, and the scratch folder through which we speak to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox.gpus.device import Device
from sandbox.isolation.interpreter import interpreter
from sandbox.isolation.masks import labelled
from sandbox.isolation.probe import Isolation
from sandbox.isolation.scratch import Scratch
from sandbox.isolation.walls import SYSTEM, Walls, seen
from sandbox.settings import SandboxSettings

_GPU_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")


@dataclass(frozen=True)
class Needs:
    """What one kernel works with."""

    folder: Path
    seen: Path
    """What the code sees the folder as."""
    cache: Path
    scratch: Scratch
    readable: tuple[Path, ...] = ()
    gpus: tuple[Device, ...] = ()


def kernel_walls(
    needs: Needs, *, settings: SandboxSettings, isolation: Isolation, secret: Iterable[Path] = (),
) -> Walls:
    """The walls of one kernel. `secret` is never seen, wherever it lies. Raises `ExecutorError`."""
    trees = (*interpreter(settings.python).trees, *map(Path, settings.readable))
    visible = (*trees, *map(Path, SYSTEM))
    hidden = (*labelled(trees, os.environ), *(path for path in secret if seen(path, visible)))
    return Walls(
        needs.folder, needs.seen, writable=(needs.cache, needs.scratch.sockets), environments=trees, hidden=hidden,
        readable=(*needs.readable, needs.scratch.root), tmp=needs.scratch.tmp, devices=device_files(needs.gpus),
        network=settings.network == "on", shm_bytes=int(settings.shm_gb * 1e9),
        user_namespace=isolation.user_namespace)


def device_files(gpus: tuple[Device, ...]) -> tuple[Path, ...]:
    """The device files of leased GPUs, with those that NVIDIA's driver needs for any."""
    if not gpus:
        return ()
    return tuple(Path("/dev", name) for name in (*(f"nvidia{one.minor}" for one in gpus), *_GPU_FILES))
