"""`scientist audit`: is every number of a paper tied to the record, and is every file what the record says?

A paper that is not ours is checked against its result files, its code and itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.audit import AuditReport
from agent.audit import audit as audit_run
from agent.cli.edge import DONE, FINDINGS
from agent.cli.status import run_folder
from inspector.text import plain
from record.errors import WrongUse
from review.evidence.tex import TexError
from review.foreign import ForeignAudit, audit_paper

_STYLES = {"found": "green", "derivable": "green", "ambiguous": "yellow", "unsupported": "red"}


def audit(path: Path, results: Path | None, code: Path | None, json: bool) -> int:
    if path.is_file():
        try:
            paper = asyncio.run(audit_paper(path, results=results, code=code))
        except TexError as error:
            raise WrongUse(str(error)) from None
        if json:
            print(dumps(paper_as_plain(paper), indent=1))
        else:
            show_paper(paper, Console())
        return FINDINGS if paper.findings else DONE
    if results is not None or code is not None:
        raise WrongUse(f"{path} is not a file: --results and --code go with a paper (.md, .tex, .pdf), not with a run")
    report = audit_run(run_folder(path))
    if json:
        print(dumps({"unbound": report.unbound, "released": report.released, "counts": report.counts,
                     "findings": [asdict(finding) for finding in report.findings]}, indent=1))
    else:
        show_run(report, Console())
    return FINDINGS if report.findings else DONE


def show_run(report: AuditReport, console: Console) -> None:
    """Findings, one a line, then what was checked."""
    for finding in report.findings:
        colour = "yellow" if finding.kind == "not checked" else "red"
        line = Text(f"{finding.kind}: ", style=colour) + Text(f"{plain(finding.where)}: {plain(finding.what)}")
        console.print(line, soft_wrap=True)
    checked = ", ".join(f"{number} {what}" for what, number in report.counts.items()) or "nothing"
    console.print(Text(f"checked {checked}"), soft_wrap=True)
    verdict = "clean" if not report.findings else f"{len(report.findings)} finding{'s'[len(report.findings) == 1:]}"
    console.print(Text(f"{verdict}: {report.unbound} unbound", style="red" if report.findings else "green"))


# --- papers that are not ours ----------------------------------------------------------------------------------------


def paper_as_plain(report: ForeignAudit) -> dict[str, object]:
    """A report as plain values for JSON (see docs/audit.md)."""
    return {
        "paper": report.paper, "sha256": report.sha256, "findings": report.findings,
        "numbers": report.numbers, "counts": report.counts if report.verdicts else {},
        "in_reports_only": report.written,
        "results": {"files": list(report.result_files), "numbers": report.result_numbers},
        "verdicts": [
            {"number": one.claim.number.text, "class": one.kind,
             "where": one.claim.where, "context": one.claim.context,
             "evidence": one.evidence,
             "chance": round(one.chance, 4), "in_reports_only": one.written}
            for one in report.verdicts],
        "inconsistencies": [{"kind": one.kind, "where": one.where, "what": one.what} for one in report.inconsistencies],
        "code": {"files": report.code_files, "findings": [one.model_dump() for one in report.code]},
        "left_out": report.left_out,
    }


def show_paper(report: ForeignAudit, console: Console) -> None:
    """Every number in a table, what speaks against the paper, then the counts."""
    if report.verdicts:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
        for name in ("number", "class", "where", "evidence"):
            table.add_column(name, no_wrap=name in ("number", "class"))
        for one in report.verdicts:
            evidence = plain(one.claim.context[:120]) if one.kind == "unsupported" else one.evidence
            if one.kind == "found" and one.written:
                evidence += ", a report"
            elif one.kind == "ambiguous":
                evidence += f"; as many as {one.chance:.0%} of such numbers would match"
            table.add_row(Text(plain(one.claim.number.text)), Text(one.kind, style=_STYLES[one.kind]),
                          Text(plain(one.claim.where)), Text(plain(evidence)))
        console.print(table)
    for one in report.inconsistencies:
        console.print(Text(f"{one.kind}: ", style="red") + Text(f"{plain(one.where)}: {plain(one.what)}"),
                      soft_wrap=True)
    for finding in report.code:
        style = "red" if finding.suspect else "yellow"
        console.print(Text(f"code, {finding.kind}: ", style=style) + Text(plain(str(finding))), soft_wrap=True)
    for line in report.left_out:
        console.print(Text(f"not read: {plain(line)}", style="dim"), soft_wrap=True)
    checked = [f"{report.numbers} numbers read; give --results DIR to hold them against result files"]
    if report.verdicts:
        counts = ", ".join(f"{number} {name}" for name, number in report.counts.items())
        checked = [f"{report.numbers} numbers: {counts} ({report.written} found in reports only), against "
                   f"{report.result_numbers} numbers of {len(report.result_files)} result files"]
    if report.code_files:
        checked.append(f"{len(report.code)} findings in {report.code_files} files of code")
    verdict = f"findings: {report.findings}" if report.findings else "nothing speaks against it"
    console.print(Text("\n".join(checked)), soft_wrap=True)
    console.print(Text(f"{verdict}; numbers that code made up are found like any other",
                       style="red" if report.findings else "green"), soft_wrap=True)
