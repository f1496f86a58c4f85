"""What `scientist missing-ablations` found, and how it is shown: quotes that do not stand in the paper say so."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field
from rich.table import Table
from rich.text import Text

from labwright.agent.cli.judged import NOT_QUOTED, removed_lines
from labwright.agent.cli.shown import line
from labwright.inspector.text import dollars, plain
from labwright.models.roles.ablations import AblatedPart, Remark, WantedAblation
from labwright.record.fold.facts import RoleUsage
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.papers import Removed


class QuotedPart(Frozen):
    """A part of the method; `quoted` says whether its passages stand in the paper."""

    part: AblatedPart
    quoted: bool


class QuotedAblation(Frozen):
    """An ablation that is asked for."""

    ablation: WantedAblation
    quoted: bool


class PlanScore(Frozen):
    """A plan against gold ablations or reviews. `found`: of each gold ablation, or empty for reviews."""

    against: str
    judges: tuple[str, ...]
    entries: int
    wanted: int
    precision: float
    recall: float
    f1: float
    found: tuple[bool, ...] = ()


class MissingReport(Frozen):
    """What a paper ablates, what it does not, and what is missing, best first."""

    paper: str
    view: str
    model: str
    shown: tuple[str, ...] = Field(description="titles of the sections that were shown")
    cut: tuple[str, ...] = Field(default=(), description="titles of those that were not, in author mode")
    left_out: tuple[str, ...] = ()
    parts: tuple[QuotedPart, ...]
    missing: tuple[QuotedAblation, ...]
    reasoning: str
    remarks: tuple[Remark, ...] = Field(default=(), description="on the plan that was handed in, entry by entry")
    repeats: tuple[str, ...] = Field(default=(), description="entries of that plan that repeat an earlier one")
    faults: tuple[str, ...] = ()
    score: PlanScore | None = None
    removed: tuple[Removed, ...] = ()
    took: RoleUsage


def lines(found: MissingReport) -> Iterator[Text | Table]:
    """What is ablated, what is not and carries a claim, then what is missing, best first."""
    yield line(f"{found.paper}, read by {found.model} as its {found.view}", "bold")
    there = [one for one in found.parts if one.part.ablated]
    yield line(f"ablated already: {len(there)}" if there else "ablated already: nothing that was found", "bold")
    yield from (_item(one.part.part, "", one.part.where or one.part.quote, one.quoted, "green") for one in there)
    never = [one for one in found.parts if not one.part.ablated]
    yield line(f"never ablated: {len(never)}", "bold")
    yield from (
        _item(one.part.part, one.part.claim.removeprefix("none"), one.part.quote, one.quoted, "yellow") for one in never
    )
    yield line(f"missing, best first: {len(found.missing)}" if found.missing else "missing: none", "bold")
    for number, one in enumerate(found.missing, 1):
        wanted = one.ablation
        yield line(
            f"{wanted.name}: {_change(wanted)} (likely to be asked for: {wanted.probability:.2f})",
            "bold",
            label=f"{number}. ",
        )
        yield _item("tests", wanted.claim, wanted.quote, one.quoted, "")
        if wanted.metrics:
            yield line(f"measured by {', '.join(wanted.metrics)}", "dim")
    yield from _of_plan(found)
    if found.cut:
        yield line(f"not shown to the author: {', '.join(one for one in found.cut if one)}", "dim")
    yield from (line(f"not shown: {one}", "dim") for one in found.left_out)
    yield from removed_lines(found.removed)
    yield line(
        f"{found.took.calls} calls, {found.took.input_tokens + found.took.output_tokens} tokens, "
        f"{dollars(found.took.usd, found.took.unpriced)}",
        "dim",
    )


def _change(wanted: WantedAblation) -> str:
    others = "; or ".join(wanted.replacement)
    return {
        "REMOVE": f"take out {wanted.ablated_part}",
        "REPLACE": f"replace {wanted.ablated_part} by {others}",
        "ADD": f"add {others} to {wanted.ablated_part}",
    }[wanted.action]


def _item(head: str, text: str, quote: str, quoted: bool, style: str) -> Text:
    mark = "" if quoted else f" ({NOT_QUOTED})"
    return (
        Text(plain(head), style=style)
        + Text(f": {plain(text)}" if text else "")
        + Text(f" \u201c{plain(quote)}\u201d" if quote else "", style="dim")
        + Text(mark, style="bold red")
    )


def _of_plan(found: MissingReport) -> Iterator[Text]:
    """What the paper says to the person's own list, and its score."""
    if found.remarks:
        yield line("your list", "bold")
    for one in found.remarks:
        style = {"missing": "green", "there already": "yellow", "no such part": "red"}[one.standing]
        yield (
            Text(f"{one.entry} {one.standing}", style=style)
            + Text(f": {plain(one.why)}")
            + Text(f" \u201c{plain(one.quote)}\u201d" if one.quote else "", style="dim")
        )
    yield from (line(one, "yellow", label="twice: ") for one in found.repeats)
    yield from (line(one, "yellow", label="not read: ") for one in found.faults)
    if (score := found.score) is not None:
        hits = "" if not score.found else f"; found of gold: {', '.join('yes' if one else 'no' for one in score.found)}"
        yield line(
            f"against {score.against} ({score.wanted}), judged by {', '.join(score.judges)}: precision "
            f"{score.precision:.2f}, recall {score.recall:.2f}, F1 {score.f1:.2f}{hits}"
        )
