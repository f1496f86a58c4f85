"""Is this machine, and a model, fit for a run? Small probes, each bounded in time, each one finding.

Nothing is changed, nothing is installed, and nothing is sent anywhere unless a model is named. A fault is what a run
cannot do its work with; a warning is what it does worse with.

Not guaranteed: that a run ends well. A probe looks at one moment, and a minute later a disk may be full or a provider
away.
"""

from __future__ import annotations

from typing import Literal

from labwright.record.schema.frozen_model import FrozenModel

Grade = Literal["ok", "warning", "fault"]


class DoctorFinding(FrozenModel):
    """One line of a report. `fix` is what to do about it, as exactly as possible; empty where all is well."""

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
    """The fault of a probe that broke."""
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return make_fault(check, f"could not be checked: {problem}", "look at what the message names, then ask again")
