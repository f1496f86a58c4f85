"""What `scientist judge` prints: scores with their grounds, what the judges saw, and what stands beside the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from labwright.agent.cli.shown import first, line, table
from labwright.inspector.text import plain
from labwright.record.nouns.papers import TEXT_ALONE, AuditFacts, Judgement, Panel, Removed

NOT_QUOTED = "not in the paper"
VIEW_OF_PAPER = "the judge saw the paper as its reader does: no code, log, record or audit"
LISTED = 12


def lines(found: Judgement | Panel) -> Iterator[Text | Table]:
    """A judgement as a table; of a panel the spread of each dimension, each judgement, and what is missing. Then what
    stands beside the scores."""
    head = f"{found.paper} by the rubric {found.rubric}"
    if isinstance(found, Judgement):
        judgements = (found,)
        yield line(f"{head}, judged by {found.model}")
        yield from _scores(found)
    else:
        judgements = found.judgements
        yield line(f"{head}: {len(judgements)} of {found.asked} judgements")
        if found.dimensions and len(judgements) > 1:
            yield table(
                "dimension",
                "n",
                "mean",
                "sd",
                "range",
                "scores",
                "",
                rows=(
                    (
                        one.dimension,
                        str(one.n),
                        f"{one.mean:.2f}",
                        "-" if one.sd is None else f"{one.sd:.2f}",
                        str(one.range),
                        ", ".join(map(str, one.scores)),
                        Text("judges disagree" if one.disagree else "", style="bold yellow"),
                    )
                    for one in found.dimensions
                ),
            )
        for judgement in judgements:
            yield Text(f"\n{plain(judgement.model)}", style="bold")
            yield from _scores(judgement)
    yield from _shown(judgements)
    if isinstance(found, Panel):
        yield from (
            line(f"{one.model}, {one.repeat}: {one.why}", "bold red", label="missing: ") for one in found.missing
        )
    if found.audit is not None:
        yield from audit_lines(found.audit)
    yield from removed_lines(judgements[0].removed if judgements else ())
    yield from (line(warning, "yellow", label="warning: ") for warning in found.warnings)


def audit_lines(facts: AuditFacts) -> Iterator[Text]:
    """What a program found, as facts beside the scores."""
    looked = [f"{facts.numbers} numbers"] if facts.numbers or not facts.counts else []
    counts = ", ".join([*looked, *(f"{what} {count}" for what, count in facts.counts)])
    yield line(f"audit against {facts.against}: {counts}")
    yield from first([line(fact, label="executed: ") for fact in facts.provenance], LISTED)
    yield from (line(finding, "red", label="! ") for finding in facts.findings[:LISTED])
    if (more := facts.more + max(0, len(facts.findings) - LISTED)) > 0:
        yield Text(f"and {more} more findings: scientist audit shows all", style="dim")
    yield from (line(f"not audited: {left_out}", "dim") for left_out in facts.left_out[:LISTED])


def removed_lines(removed: Sequence[Removed]) -> Iterator[Text]:
    """What the guards took out, for a person to read."""
    if removed:
        yield Text(f"{len(removed)} passages were kept from the judge:", style="bold yellow")
    yield from first(
        [
            line(f"{one.kind}, by the {one.by}, {one.where}: {one.text[:300]}", "yellow", label="removed: ")
            for one in removed
        ],
        LISTED,
    )


def _scores(found: Judgement) -> Iterator[Text | Table]:
    if found.heuristic:
        yield Text("HEURISTIC: counted from the record of the run; nobody read the paper", style="bold yellow")
    yield table(
        "dimension",
        "score",
        "reason",
        rows=(
            *(
                (one.check, "yes" if one.answer else "no", _ground(one.details, one.quote, one.quoted or not one.quote))
                for one in found.checks
            ),
            *(
                (one.dimension, f"{one.score}/{one.highest}", _ground(one.reason, one.quote, one.quoted))
                for one in found.scores
            ),
            *_beside_scores(found),
            ("confidence", f"{found.confidence}/{found.most_confidence}", ""),
        ),
    )
    yield from (line(strength, "green", label="+ ") for strength in found.strengths)
    yield from (line(weakness, "red", label="- ") for weakness in found.weaknesses)
    results = [found.results] if found.results is not None else []
    given = [one.quoted for one in (*found.scores, *found.checks, *results) if one.quote]
    if not all(given):
        yield Text(f"{given.count(False)} of {len(given)} quotes: {NOT_QUOTED}", style="bold red")


def _beside_scores(found: Judgement) -> Iterator[tuple[str, str, str | Text]]:
    """What the text alone is worth, and how the results came about."""
    if (alone := found.text_alone) is not None:
        yield TEXT_ALONE, f"{alone.score}/{alone.highest}", alone.reason
    if (one := found.results) is not None:
        mark = f" ({one.where})" if one.where else ""
        yield "results", one.answer, _ground(one.details, one.quote, one.quoted or not one.quote) + mark


def _shown(judgements: Sequence[Judgement]) -> Iterator[Text]:
    """What the judges saw: once where all saw the same."""
    whose: dict[tuple[str, ...], list[str]] = {}
    for one in judgements:
        pages = ", ".join(map(str, one.pages))
        seen = (
            *([VIEW_OF_PAPER] if one.view == "paper" else []),
            *([f"read: {one.coverage}"] if one.coverage else []),
            *([f"pages seen: {pages}"] if pages else []),
            *(f"beside the paper: {exhibit}" for exhibit in one.exhibits),
            *(f"not shown to the judge: {left_out}" for left_out in one.left_out),
        )
        whose.setdefault(seen, []).append(one.model)
    for seen, models in whose.items():
        head = [f"{', '.join(dict.fromkeys(models))}:"] if len(whose) > 1 else []
        yield from (line(text, "dim") for text in [*head, *seen])


def _ground(reason: str, quote: str, quoted: bool) -> Text:
    """A reason and its quote, marked where it does not stand in the paper."""
    mark = "" if quoted else f" ({NOT_QUOTED})"
    quotation = f"\u201c{plain(quote)}\u201d" if quote else ""
    return Text(f"{plain(reason)} ") + Text(quotation, style="dim") + Text(mark, style="bold red")
