"""What a run runs in: versions, device, and what must be told of it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, distributions, version

from record.fold import RunState

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


ISOLATION = (
    "Experiments ran as ordinary processes, without isolation: withheld labels were not handed to their code, but it "
    "could have reached them, so values computed from its predictions are graded 'computed', not 'scored'.")
"""What a reader must be told of how experiments ran. Isolation is a later step of the sandbox."""


def notice(state: RunState) -> str:
    """What the first page of a paper says of its origin."""
    assert state.started is not None
    early = f" The run was ended early: {state.limited}." if state.limited else ""
    return (f"This paper was written by a program, scientist {state.started.version}, with the model "
            f"{' and '.join(state.models)}: plan, code, experiments, figures and text. No person checked or edited it. "
            f"Experiments ran without isolation.{early} The appendix lists every experiment that was run.")
