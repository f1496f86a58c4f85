"""Judgements, panels and audits as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.text import plain
from record.judgement import AuditFacts, DimensionScore, Judgement, Panel, Removed

NOT_QUOTED = "not in the paper"
LISTED = 12


def show(found: Judgement, console: Console) -> None:
    """A judgement as a table, then what stands beside the scores."""
    console.print(Text(f"{plain(found.paper)} by the rubric {plain(found.rubric)}, judged by {plain(found.model)}"),
                  soft_wrap=True)
    _scores(found, console)
    if found.audit is not None:
        show_audit(found.audit, console)
    show_removed(found.removed, console)
    _lines(found.warnings, "warning: ", "yellow", console)


def show_panel(found: Panel, console: Console) -> None:
    """The spread of each dimension, each judgement, and what is missing."""
    given = f"{len(found.judgements)} of {found.asked} judgements"
    console.print(Text(f"{plain(found.paper)} by the rubric {plain(found.rubric)}: {given}"), soft_wrap=True)
    if found.dimensions:
        table = _table("dimension", "n", "mean", "sd", "range", "scores", "")
        for one in found.dimensions:
            mark = Text("judges disagree", style="bold yellow") if one.disagree else Text("")
            table.add_row(one.dimension, str(one.n), f"{one.mean:.2f}", "-" if one.sd is None else f"{one.sd:.2f}",
                          str(one.range), ", ".join(map(str, one.scores)), mark)
        console.print(table)
    for judgement in found.judgements:
        console.print(Text(f"\n{plain(judgement.model)}", style="bold"))
        _scores(judgement, console)
    for one in found.missing:
        console.print(Text("missing: ", style="bold red") + Text(f"{plain(one.model)}, {one.repeat}: {plain(one.why)}"),
                      soft_wrap=True)
    if found.audit is not None:
        show_audit(found.audit, console)
    show_removed(found.judgements[0].removed if found.judgements else (), console)
    _lines(found.warnings, "warning: ", "yellow", console)


def show_audit(facts: AuditFacts, console: Console) -> None:
    """What a program found, as facts beside the scores."""
    counts = "".join(f", {plain(what)} {count}" for what, count in facts.counts)
    console.print(Text(f"audit against {plain(facts.against)}: {facts.numbers} numbers{counts}"), soft_wrap=True)
    _lines(facts.findings[:LISTED], "! ", "red", console)
    if (more := facts.more + max(0, len(facts.findings) - LISTED)) > 0:
        console.print(Text(f"and {more} more findings: scientist audit shows all", style="dim"), soft_wrap=True)
    _lines(facts.left_out[:LISTED], "not audited: ", "dim", console)


def show_removed(removed: Sequence[Removed], console: Console) -> None:
    """What the guards took out, for a person to read."""
    if removed:
        console.print(Text(f"{len(removed)} passages were kept from the judge:", style="bold yellow"))
    _lines([f"{one.kind}, {one.where}: {one.text[:300]}" for one in removed[:LISTED]], "removed: ", "yellow", console)
    if len(removed) > LISTED:
        console.print(Text(f"and {len(removed) - LISTED} more: --json shows all", style="dim"))


def _scores(found: Judgement, console: Console) -> None:
    if found.heuristic:
        console.print(Text("HEURISTIC: counted from the record of the run; nobody read the paper", style="bold yellow"))
    table = _table("dimension", "score", "reason")
    for check in found.checks:
        table.add_row(check.check, "yes" if check.answer else "no",
                      _ground(check.details, check.quote, check.quoted or not check.quote))
    for one in found.scores:
        table.add_row(one.dimension, f"{one.score}/{one.highest}", _of(one))
    table.add_row("confidence", f"{found.confidence}/{found.most_confidence}", "")
    console.print(table)
    _lines(found.strengths, "+ ", "green", console)
    _lines(found.weaknesses, "- ", "red", console)
    if found.coverage:
        console.print(Text(f"read: {plain(found.coverage)}", style="dim"), soft_wrap=True)
    if found.pages:
        console.print(Text(f"pages seen: {', '.join(map(str, found.pages))}", style="dim"), soft_wrap=True)
    _lines(found.exhibits, "beside the paper: ", "dim", console)
    _lines(found.left_out, "not shown to the judge: ", "dim", console)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=name not in ("reason", "scores"))
    return table


def _lines(lines: Sequence[str], sign: str, style: str, console: Console) -> None:
    for line in lines:
        said = Text(plain(line), style="dim" if style == "dim" else "")
        console.print(Text(sign, style=style) + said, soft_wrap=True)


def _of(one: DimensionScore) -> Text:
    return _ground(one.reason, one.quote, one.quoted)


def _ground(reason: str, quote: str, quoted: bool) -> Text:
    """A reason and its quote, marked where it does not stand in the paper."""
    mark = Text("") if quoted else Text(f" ({NOT_QUOTED})", style="bold red")
    said = Text(f"\u201c{plain(quote)}\u201d", style="dim") if quote else Text("")
    return Text(f"{plain(reason)} ") + said + mark
