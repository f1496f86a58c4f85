"""What a run runs in: versions, device, and what must be told of it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, distributions, version

from agent.settings import Settings
from sandbox.settings import SandboxSettings

SHOWN = ("torch", "numpy", "scipy", "scikit-learn", "transformers", "datasets", "pandas", "matplotlib", "pillow")
"""Packages that prompts name when they are installed."""


def packages() -> tuple[str, ...]:
    """Packages that experiments may import, as `name version`."""
    found: list[str] = []
    for name in SHOWN:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)


def environment_text() -> str:
    """Python, platform and every installed distribution, one a line."""
    lines = sorted({f"{one.metadata['Name']}=={one.version}" for one in distributions()}, key=str.lower)
    return "\n".join((f"python {platform.python_version()}", platform.platform(), *lines, ""))


def device_of(settings: SandboxSettings) -> str:
    """The device that experiments get, as prompts and `lab.device` name it."""
    return settings.device


def describe(settings: Settings) -> tuple[str, ...]:
    """What a reader of the paper must be told of how its numbers came about."""
    return (
        f"The research plan, code and text were written by the program scientist {version('scientist')} with the model "
        f"{settings.models.name}; no person edited them.",
        "Experiments ran without isolation: withheld labels were not handed to the code, but it could have reached "
        "them; their grade is therefore 'computed', not 'scored'.",
    )
