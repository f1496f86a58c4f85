"""`scientist audit`: is every number of a paper tied to the record, and is every file what the record says?

A paper that is not ours goes to `agent.commands.audit_paper`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agent.commands.edge import DONE, FINDINGS, WrongUse
from agent.commands.look import run_folder
from inspector.text import plain
from record.reading import RecordError, read_state

if TYPE_CHECKING:
    from agent.audit import AuditReport


def audit(path: Path, *, results: Path | None = None, code: Path | None = None, as_json: bool) -> int:
    """Audit a run or a paper; returns 5 when anything was found, or could not be checked."""
    if path.is_file():
        from agent.commands.audit_paper import audit_paper

        return audit_paper(path, results=results, code=code, as_json=as_json)
    if results is not None or code is not None:
        raise WrongUse(f"{path} is not a file: --results and --code go with a paper (.md, .tex, .pdf), not with a run")
    folder = run_folder(path)
    if read_state(folder).started is None:
        raise WrongUse(f"{path} was cut off before it began: there is nothing to audit")
    from agent.audit import audit as examine

    try:
        report = examine(folder)
    except RecordError as error:
        raise WrongUse(str(error)) from None
    if as_json:
        print(json.dumps(as_plain(report), indent=1))
    else:
        show(report, Console())
    return FINDINGS if report.findings else DONE


def as_plain(report: AuditReport) -> dict[str, object]:
    """A report as plain values for JSON (see docs/command-line.md)."""
    return {"unbound": report.unbound, "released": report.released, "counts": report.counts,
            "findings": [asdict(finding) for finding in report.findings]}


def show(report: AuditReport, console: Console) -> None:
    """Findings, one a line, then what was checked."""
    for finding in report.findings:
        colour = "yellow" if finding.kind == "not checked" else "red"
        line = Text(f"{finding.kind}: ", style=colour) + Text(f"{plain(finding.where)}: {plain(finding.what)}")
        console.print(line, soft_wrap=True)
    checked = ", ".join(f"{number} {what}" for what, number in report.counts.items()) or "nothing"
    console.print(Text(f"checked {checked}"), soft_wrap=True)
    verdict = "clean" if not report.findings else f"{len(report.findings)} finding{'s'[len(report.findings) == 1:]}"
    console.print(Text(f"{verdict}: {report.unbound} unbound", style="red" if report.findings else "green"))
