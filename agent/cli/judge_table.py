"""Judgements, panels and audits as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.text import plain
from record.nouns.papers import AuditFacts, Judgement, Panel, Removed

NOT_QUOTED = "not in the paper"
LISTED = 12


def show(found: Judgement | Panel, console: Console) -> None:
    """A judgement as a table; of a panel the spread of each dimension, each judgement, and what is missing. Then what
    stands beside the scores."""
    head = f"{plain(found.paper)} by the rubric {plain(found.rubric)}"
    if isinstance(found, Judgement):
        judgements, removed = (found,), found.removed
        console.print(Text(f"{head}, judged by {plain(found.model)}"), soft_wrap=True)
        _scores(found, console)
    else:
        judgements, removed = found.judgements, found.judgements[0].removed if found.judgements else ()
        console.print(Text(f"{head}: {len(judgements)} of {found.asked} judgements"), soft_wrap=True)
        _spread(found, console)
    _shown(judgements, console)
    for one in found.missing if isinstance(found, Panel) else ():
        console.print(Text("missing: ", style="bold red") + Text(f"{plain(one.model)}, {one.repeat}: {plain(one.why)}"),
                      soft_wrap=True)
    if found.audit is not None:
        show_audit(found.audit, console)
    show_removed(removed, console)
    _lines(found.warnings, "warning: ", "yellow", console)


def _spread(found: Panel, console: Console) -> None:
    if found.dimensions and len(found.judgements) > 1:
        table = _table("dimension", "n", "mean", "sd", "range", "scores", "")
        for one in found.dimensions:
            mark = Text("judges disagree", style="bold yellow") if one.disagree else Text("")
            table.add_row(one.dimension, str(one.n), f"{one.mean:.2f}", "-" if one.sd is None else f"{one.sd:.2f}",
                          str(one.range), ", ".join(map(str, one.scores)), mark)
        console.print(table)
    for judgement in found.judgements:
        console.print(Text(f"\n{plain(judgement.model)}", style="bold"))
        _scores(judgement, console)


def show_audit(facts: AuditFacts, console: Console) -> None:
    """What a program found, as facts beside the scores."""
    looked = [f"{facts.numbers} numbers"] if facts.numbers or not facts.counts else []
    counts = ", ".join([*looked, *(f"{plain(what)} {count}" for what, count in facts.counts)])
    console.print(Text(f"audit against {plain(facts.against)}: {counts}"), soft_wrap=True)
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
        table.add_row(one.dimension, f"{one.score}/{one.highest}", _ground(one.reason, one.quote, one.quoted))
    table.add_row("confidence", f"{found.confidence}/{found.most_confidence}", "")
    console.print(table)
    _lines(found.strengths, "+ ", "green", console)
    _lines(found.weaknesses, "- ", "red", console)
    given = [one.quoted for one in (*found.scores, *found.checks) if one.quote]
    if not all(given):
        console.print(Text(f"{given.count(False)} of {len(given)} quotes: {NOT_QUOTED}", style="bold red"))


def _shown(judgements: Sequence[Judgement], console: Console) -> None:
    """What the judges saw: once where all saw the same."""
    whose: dict[tuple[str, ...], list[str]] = {}
    for one in judgements:
        lines = (
            *([f"read: {plain(one.coverage)}"] if one.coverage else []),
            *([f"pages seen: {', '.join(map(str, one.pages))}"] if one.pages else []),
            *(f"beside the paper: {plain(line)}" for line in one.exhibits),
            *(f"not shown to the judge: {plain(line)}" for line in one.left_out))
        whose.setdefault(lines, []).append(plain(one.model))
    for lines, models in whose.items():
        for line in [f"{', '.join(dict.fromkeys(models))}:"] * (len(whose) > 1) + [*lines]:
            console.print(Text(line, style="dim"), soft_wrap=True)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=name not in ("reason", "scores"))
    return table


def _lines(lines: Sequence[str], sign: str, style: str, console: Console) -> None:
    for line in lines:
        text = Text(plain(line), style="dim" if style == "dim" else "")
        console.print(Text(sign, style=style) + text, soft_wrap=True)


def _ground(reason: str, quote: str, quoted: bool) -> Text:
    """A reason and its quote, marked where it does not stand in the paper."""
    mark = Text("") if quoted else Text(f" ({NOT_QUOTED})", style="bold red")
    quotation = Text(f"\u201c{plain(quote)}\u201d", style="dim") if quote else Text("")
    return Text(f"{plain(reason)} ") + quotation + mark
