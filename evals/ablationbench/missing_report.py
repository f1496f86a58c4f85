"""Report of `scientist missing-ablations`, and its format; quotes that are not in the paper are marked."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field
from rich.text import Text

from labwright.agent.cli.judge_output import NOT_QUOTED, format_removed
from labwright.agent.cli.output import format_line
from labwright.inspector.safe_text import format_dollars, to_plain
from labwright.models.roles.ablations import AblatedPart, Remark, WantedAblation
from labwright.record.reducers.call_state import RoleUsage
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import RemovedPassage
from labwright.record.table import Table


class CheckedPart(FrozenModel):
    """A part of the method; `quoted` says whether its passages are in the paper."""

    part: AblatedPart
    quoted: bool


class CheckedAblation(FrozenModel):
    """A requested ablation."""

    ablation: WantedAblation
    quoted: bool


class PlanScore(FrozenModel):
    """Score of a plan against gold ablations or reviews.

    `found` has one value per gold ablation, and is empty for reviews.
    """

    against: str
    judges: tuple[str, ...]
    entries: int
    wanted: int
    precision: float
    recall: float
    f1: float
    found: tuple[bool, ...] = ()


class MissingReport(FrozenModel):
    """Which parts a paper ablates, which it does not, and which ablations are missing, best first."""

    paper: str
    view: str
    model: str
    shown: tuple[str, ...] = Field(description="titles of the sections that were shown")
    cut: tuple[str, ...] = Field(default=(), description="titles of the sections that were withheld, in author mode")
    left_out: tuple[str, ...] = ()
    parts: tuple[CheckedPart, ...]
    missing: tuple[CheckedAblation, ...]
    reasoning: str
    remarks: tuple[Remark, ...] = Field(default=(), description="for the given plan, entry by entry")
    repeats: tuple[str, ...] = Field(default=(), description="entries of that plan that repeat an earlier one")
    faults: tuple[str, ...] = ()
    score: PlanScore | None = None
    removed: tuple[RemovedPassage, ...] = ()
    took: RoleUsage


def format_report(found: MissingReport) -> Iterator[Text | Table]:
    """Yield what is ablated, what is not but carries a claim, then what is missing, best first."""
    yield format_line(f"{found.paper}, read by {found.model} as its {found.view}", "bold")
    there = [one for one in found.parts if one.part.ablated]
    yield format_line(f"ablated already: {len(there)}" if there else "ablated already: none found", "bold")
    yield from (_format_item(one.part.part, "", one.part.where or one.part.quote, one.quoted, "green") for one in there)
    never = [one for one in found.parts if not one.part.ablated]
    yield format_line(f"{'not ablated before the results' if found.cut else 'never ablated'}: {len(never)}", "bold")
    yield from (
        _format_item(one.part.part, one.part.claim.removeprefix("none"), one.part.quote, one.quoted, "yellow")
        for one in never
    )
    likely = "the authors report it" if found.view == "author" else "a reviewer asks for it"
    yield format_line(f"missing, best first: {len(found.missing)}" if found.missing else "missing: none", "bold")
    for number, one in enumerate(found.missing, 1):
        wanted = one.ablation
        yield format_line(
            f"{wanted.name}: {_format_change(wanted)} (probability that {likely}: {wanted.probability:.2f})",
            "bold",
            label=f"{number}. ",
        )
        yield _format_item("tests", wanted.claim, wanted.quote, one.quoted, "")
        if wanted.metrics:
            yield format_line(f"measured by {', '.join(wanted.metrics)}", "dim")
    yield from _format_plan_score(found)
    if found.cut:
        yield format_line(f"withheld from the author: {', '.join(one for one in found.cut if one)}", "dim")
    yield from (format_line(f"not shown: {one}", "dim") for one in found.left_out)
    yield from format_removed(found.removed)
    took = found.took
    yield format_line(
        f"{took.calls} call{'s' if took.calls != 1 else ''}, {took.input_tokens + took.output_tokens} tokens, "
        f"{format_dollars(took.usd, took.unpriced)}",
        "dim",
    )


def _format_change(wanted: WantedAblation) -> str:
    others = "; or ".join(wanted.replacement)
    return {
        "REMOVE": f"remove {wanted.ablated_part}",
        "REPLACE": f"replace {wanted.ablated_part} by {others}",
        "ADD": f"add {others} to {wanted.ablated_part}",
    }[wanted.action]


def _format_item(head: str, text: str, quote: str, quoted: bool, style: str) -> Text:
    mark = "" if quoted else f" ({NOT_QUOTED})"
    return (
        Text(to_plain(head), style=style)
        + Text(f": {to_plain(text)}" if text else "")
        + Text(f" \u201c{to_plain(quote)}\u201d" if quote else "", style="dim")
        + Text(mark, style="bold red")
    )


def _format_plan_score(found: MissingReport) -> Iterator[Text]:
    """Yield how the paper covers the user's list, and the score of the list."""
    if found.remarks:
        yield format_line("your list", "bold")
    for one in found.remarks:
        style = {"missing": "green", "there already": "yellow", "no such part": "red"}[one.standing]
        yield (
            Text(f"{one.entry} {one.standing}", style=style)
            + Text(f": {to_plain(one.why)}")
            + Text(f" \u201c{to_plain(one.quote)}\u201d" if one.quote else "", style="dim")
        )
    yield from (format_line(one, "yellow", label="twice: ") for one in found.repeats)
    yield from (format_line(one, "yellow", label="not read: ") for one in found.faults)
    if (score := found.score) is not None:
        hits = "" if not score.found else f"; found of gold: {', '.join('yes' if one else 'no' for one in score.found)}"
        yield format_line(
            f"against {score.against} ({score.wanted}), judged by {', '.join(score.judges)}: precision "
            f"{score.precision:.2f}, recall {score.recall:.2f}, F1 {score.f1:.2f}{hits}"
        )
