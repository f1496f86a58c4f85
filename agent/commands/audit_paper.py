"""`scientist audit PAPER`: a paper that is not ours, against its result files, its code and itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.commands.edge import DONE, FINDINGS, WrongUse
from inspector.text import plain

if TYPE_CHECKING:
    from review.foreign import ForeignAudit
    from review.foreign.audit import Verdict

_STYLES = {"found": "green", "derivable": "green", "ambiguous": "yellow", "unsupported": "red"}


def audit_paper(path: Path, *, results: Path | None, code: Path | None, as_json: bool) -> int:
    """Audit a paper; returns 5 when anything speaks against it."""
    from review.evidence.tex import TexError
    from review.foreign import ResultsError
    from review.foreign import audit_paper as examine
    from review.judge import PaperError

    try:
        report = asyncio.run(examine(path, results=results, code=code))
    except (PaperError, ResultsError, TexError) as error:
        raise WrongUse(str(error)) from None
    if as_json:
        print(json.dumps(as_plain(report), indent=1))
    else:
        show(report, Console())
    return FINDINGS if report.findings else DONE


def as_plain(report: ForeignAudit) -> dict[str, object]:
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


def show(report: ForeignAudit, console: Console) -> None:
    """Every number in a table, what speaks against the paper, then the counts."""
    if report.verdicts:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
        for name in ("number", "class", "where", "evidence"):
            table.add_column(name, no_wrap=name in ("number", "class"))
        for one in report.verdicts:
            table.add_row(*_row(one))
        console.print(table)
    for text in _lines(report):
        console.print(text, soft_wrap=True)


def _row(one: Verdict) -> tuple[Text, ...]:
    evidence = one.evidence
    if one.kind == "found" and one.written:
        evidence += ", a report"
    if one.kind == "ambiguous":
        evidence += f"; as many as {one.chance:.0%} of such numbers would match"
    if one.kind == "unsupported":
        evidence = plain(one.claim.context[:120])
    return (Text(plain(one.claim.number.text)), Text(one.kind, style=_STYLES[one.kind]), Text(plain(one.claim.where)),
            Text(plain(evidence)))


def _lines(report: ForeignAudit) -> Iterator[Text]:
    for one in report.inconsistencies:
        yield Text(f"{one.kind}: ", style="red") + Text(f"{plain(one.where)}: {plain(one.what)}")
    for finding in report.code:
        style = "red" if finding.suspect else "yellow"
        yield Text(f"code, {finding.kind}: ", style=style) + Text(plain(str(finding)))
    for line in report.left_out:
        yield Text(f"not read: {plain(line)}", style="dim")
    if report.verdicts:
        counts = ", ".join(f"{number} {name}" for name, number in report.counts.items())
        yield Text(f"{report.numbers} numbers: {counts} ({report.written} found in reports only), against "
                   f"{report.result_numbers} numbers of {len(report.result_files)} result files")
    else:
        yield Text(f"{report.numbers} numbers read; give --results DIR to hold them against result files")
    if report.code_files:
        yield Text(f"{len(report.code)} findings in {report.code_files} files of code")
    verdict = f"findings: {report.findings}" if report.findings else "nothing speaks against it"
    style = "red" if report.findings else "green"
    yield Text(f"{verdict}; numbers that code made up are found like any other", style=style)
