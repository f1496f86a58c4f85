"""Output of `scientist judge`: scores with reasons, the material that the judges saw, and the audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from labwright.agent.cli.output import format_line, take_first
from labwright.inspector.safe_text import to_plain
from labwright.record.schema.paper import TEXT_ONLY_DIMENSION, AuditFacts, Judgement, JudgePanel, RemovedPassage
from labwright.record.table import Table

NOT_QUOTED = "not in the paper"
PAPER_ONLY_NOTE = "the judge saw only the paper: no code, log, record or audit"
MAX_LISTED = 12


def format_judgement(found: Judgement | JudgePanel) -> Iterator[Text | Table]:
    """Format a judgement as a table, or a panel as the spread of each dimension, each judgement and the missing ones.
    Then add the audit, removed passages and warnings."""
    head = f"{found.paper}, rubric {found.rubric}"
    if isinstance(found, Judgement):
        judgements = (found,)
        yield format_line(f"{head}, judged by {found.model}")
        yield from _format_scores(found)
    else:
        judgements = found.judgements
        yield format_line(f"{head}: {len(judgements)} of {found.asked} judgements")
        if found.dimensions and len(judgements) > 1:
            yield Table.of(
                ("dimension", "n", "mean", "sd", "range", "scores", ""),
                (
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
            yield Text(f"\n{to_plain(judgement.model)}", style="bold")
            yield from _format_scores(judgement)
    yield from _format_judge_inputs(judgements)
    if isinstance(found, JudgePanel):
        yield from (
            format_line(f"{one.model}, {one.repeat}: {one.why}", "bold red", label="missing: ") for one in found.missing
        )
    if found.audit is not None:
        yield from format_audit(found.audit)
    yield from format_removed(judgements[0].removed if judgements else ())
    yield from (format_line(warning, "yellow", label="warning: ") for warning in found.warnings)


def format_audit(facts: AuditFacts) -> Iterator[Text]:
    """Format the findings of the audit."""
    numbers = [f"{facts.numbers} numbers"] if facts.numbers or not facts.counts else []
    counts = ", ".join([*numbers, *(f"{what} {count}" for what, count in facts.counts)])
    yield format_line(f"audit against {facts.against}: {counts}")
    yield from take_first([format_line(fact, label="executed: ") for fact in facts.provenance], MAX_LISTED)
    yield from (format_line(finding, "red", label="! ") for finding in facts.findings[:MAX_LISTED])
    if (more := facts.more + max(0, len(facts.findings) - MAX_LISTED)) > 0:
        yield Text(f"and {more} more findings: scientist audit shows all", style="dim")
    yield from (format_line(f"not audited: {left_out}", "dim") for left_out in facts.left_out[:MAX_LISTED])


def format_removed(removed: Sequence[RemovedPassage]) -> Iterator[Text]:
    """Format the passages that the guards removed."""
    if removed:
        hidden = "1 passage was" if len(removed) == 1 else f"{len(removed)} passages were"
        yield Text(f"{hidden} hidden from the model:", style="bold yellow")
    yield from take_first(
        [
            format_line(f"{one.kind}, by the {one.by}, {one.where}: {one.text[:300]}", "yellow", label="removed: ")
            for one in removed
        ],
        MAX_LISTED,
    )


def _format_scores(found: Judgement) -> Iterator[Text | Table]:
    if found.heuristic:
        yield Text("HEURISTIC: computed from the record of the run; no model read the paper", style="bold yellow")
    yield Table.of(
        ("dimension", "score", "reason"),
        (
            *(
                (
                    one.check,
                    "yes" if one.answer else "no",
                    _format_reason(one.details, one.quote, one.quoted or not one.quote),
                )
                for one in found.checks
            ),
            *(
                (one.dimension, f"{one.score}/{one.highest}", _format_reason(one.reason, one.quote, one.quoted))
                for one in found.scores
            ),
            *_extra_score_rows(found),
            ("confidence", f"{found.confidence}/{found.most_confidence}", ""),
        ),
    )
    yield from (format_line(strength, "green", label="+ ") for strength in found.strengths)
    yield from (format_line(weakness, "red", label="- ") for weakness in found.weaknesses)
    results = [found.results] if found.results is not None else []
    given = [one.quoted for one in (*found.scores, *found.checks, *results) if one.quote]
    if not all(given):
        yield Text(f"{given.count(False)} of {len(given)} quotes: {NOT_QUOTED}", style="bold red")


def _extra_score_rows(found: Judgement) -> Iterator[tuple[str, str, str | Text]]:
    """Yield rows for the score of the text alone and for the origin of the results."""
    if (alone := found.text_alone) is not None:
        yield TEXT_ONLY_DIMENSION, f"{alone.score}/{alone.highest}", alone.reason
    if (one := found.results) is not None:
        mark = f" ({one.where})" if one.where else ""
        yield "results", one.answer, _format_reason(one.details, one.quote, one.quoted or not one.quote) + mark


def _format_judge_inputs(judgements: Sequence[Judgement]) -> Iterator[Text]:
    """Format what the judges saw, once if all saw the same."""
    models_by_inputs: dict[tuple[str, ...], list[str]] = {}
    for one in judgements:
        pages = ", ".join(map(str, one.pages))
        seen = (
            *([PAPER_ONLY_NOTE] if one.view == "paper" else []),
            *([f"read: {one.coverage}"] if one.coverage else []),
            *([f"pages seen: {pages}"] if pages else []),
            *(f"also shown: {exhibit}" for exhibit in one.exhibits),
            *(f"not shown to the judge: {left_out}" for left_out in one.left_out),
        )
        models_by_inputs.setdefault(seen, []).append(one.model)
    for seen, models in models_by_inputs.items():
        head = [f"{', '.join(dict.fromkeys(models))}:"] if len(models_by_inputs) > 1 else []
        yield from (format_line(text, "dim") for text in [*head, *seen])


def _format_reason(reason: str, quote: str, quoted: bool) -> Text:
    """Format a reason and its quote, marked if the quote is not in the paper."""
    mark = "" if quoted else f" ({NOT_QUOTED})"
    quotation = f"\u201c{to_plain(quote)}\u201d" if quote else ""
    return Text(f"{to_plain(reason)} ") + Text(quotation, style="dim") + Text(mark, style="bold red")
