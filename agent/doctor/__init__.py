"""Check whether this machine and a model are ready for a run. Each short probe has a timeout and gives one finding.

Only `fixes` changes or installs anything, and nothing is sent unless a model is named. A fault prevents a run; a
warning degrades it.

Limits: a probe shows only the current state; later, a disk may fill up or a provider may fail.
"""

from __future__ import annotations

from typing import Literal

from labwright.record.schema.frozen_model import FrozenModel

Grade = Literal["ok", "warning", "fault"]


class DoctorFinding(FrozenModel):
    """One finding of a report. `fix` says how to fix the problem; empty if there is none."""

    check: str
    grade: Grade
    found: str
    fix: str = ""


def make_ok(check: str, found: str) -> DoctorFinding:
    return DoctorFinding(check=check, grade="ok", found=found)


def make_warning(check: str, found: str, fix: str) -> DoctorFinding:
    return DoctorFinding(check=check, grade="warning", found=found, fix=fix)


def make_fault(check: str, found: str, fix: str) -> DoctorFinding:
    return DoctorFinding(check=check, grade="fault", found=found, fix=fix)


def fault_from_error(check: str, error: Exception) -> DoctorFinding:
    """Return the fault for a probe that raised."""
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return make_fault(check, f"could not be checked: {problem}", "fix the cause in the message, then run doctor again")
