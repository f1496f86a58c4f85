"""Isolate one command that reads untrusted input from its standard input and needs no file but its program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from labwright.sandbox.isolation.bubblewrap import SandboxSpec, build_command
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.probe import get_probed_isolation


def isolate_command(command: Sequence[str], program: Path) -> list[str]:
    """Return the command in a sandbox: no network, and no file of the user but this Python and `program`, read-only.

    Returns the command itself where this machine cannot isolate code; `sandbox.isolation` is for experiments only.
    """
    isolation = get_probed_isolation()
    if not isolation.is_on:
        return list(command)
    sandbox = SandboxSpec(
        None,
        environments=inspect_interpreter(sys.executable).trees,
        readable=(program,),
        guard=sys.executable if isolation.between_cells else "",
        user_namespace=isolation.user_namespace,
    )
    return build_command(command, sandbox)
