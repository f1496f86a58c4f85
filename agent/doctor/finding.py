"""What a probe found, and the one place where a probe that breaks becomes a finding itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

from record.nouns.frozen import Frozen

Grade = Literal["ok", "warning", "fault"]


class Finding(Frozen):
    """One line of a report. `mend` is what to do about it, as exactly as it can be said; empty where all is well."""

    check: str
    grade: Grade
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, grade="ok", found=found)


def warning(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, grade="warning", found=found, mend=mend)


def fault(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, grade="fault", found=found, mend=mend)


def guarded(check: str, probe: Callable[[], Finding]) -> Finding:
    """What the probe found; a probe that breaks is a fault of its own, and the others still run."""
    try:
        return probe()
    except Exception as error:  # noqa: BLE001  the edge of one probe: one broken probe must not hide the others
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return fault(check, f"could not be looked at: {said}", "look at what the message names, then ask again")


def as_json(findings: list[Finding]) -> str:
    """A report as JSON (see docs/command-line.md)."""
    grades: tuple[Grade, ...] = ("ok", "warning", "fault")
    counts = {grade: sum(one.grade == grade for one in findings) for grade in grades}
    return json.dumps({"counts": counts, "findings": [one.model_dump() for one in findings]}, indent=1)
