"""Check whether this machine and a model are ready for a run. Each short probe has a timeout and gives one verdict.

Nothing is installed except by `--fix`, and nothing is sent unless a model is named. A fault prevents a run; a warning
degrades it.

Limits: a probe shows only the current state; later, a disk may fill up or a provider may fail.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Grade = Literal["ok", "warning", "fault"]


class Verdict(NamedTuple):
    """What a probe found. `fix` says how to fix the problem; empty if there is none."""

    grade: Grade
    found: str
    fix: str = ""
