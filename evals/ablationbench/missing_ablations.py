"""`scientist missing-ablations`: list the ablations in a draft, the parts without one, and the ablations to add.

Quotes are looked up in the paper, and marked if they are not in it. Limits: a part listed as never ablated may be
ablated in a figure, or in the omitted part of a long paper.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field
from rich.text import Text

from labwright.agent.cli.errors import DONE, check_output, format_line, print_result
from labwright.agent.cli.judge import NOT_QUOTED, format_removed
from labwright.agent.cli.status import read_run_state
from labwright.agent.forecast import check_prices_known, open_budgeted_models
from labwright.agent.settings import Settings, compose_settings, override_settings
from labwright.evals.ablationbench.papers import (
    AblationPlanFile,
    entries_to_lines,
    read_plan,
    read_visible_paper,
    split_repeats,
)
from labwright.evals.ablationbench.plan_judge import to_listed
from labwright.evals.ablationbench.planners import to_entry
from labwright.evals.ablationbench.roles import (
    MAX_LISTED,
    PAPER_ABLATIONS,
    AblatedPart,
    PaperAblationsInputs,
    Remark,
    WantedAblation,
)
from labwright.evals.commands import MissingAblations
from labwright.inspector.safe_text import format_dollars, to_plain
from labwright.models.offline.judgements import CONFIGURE_MODEL_HINT
from labwright.pdf.layout import TITLE_PAGE
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog, RecordError, is_run
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import RemovedPassage
from labwright.record.table import Table
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge.paper_reader import Paper, PaperSection, quote_is_in
from labwright.stages.paper.paper_steps import read_released_paper

# Report of `scientist missing-ablations`, and its format; quotes that are not in the paper are marked.


class CheckedPart(FrozenModel):
    """A part of the method; `quoted` says whether its passages are in the paper."""

    part: AblatedPart
    quoted: bool


class CheckedAblation(FrozenModel):
    """A requested ablation."""

    ablation: WantedAblation
    quoted: bool


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
    yield from _format_own_list(found)
    if found.cut:
        yield format_line(f"withheld from the author: {', '.join(one for one in found.cut if one)}", "dim")
    yield from (format_line(f"not shown: {one}", "dim") for one in found.left_out)
    yield from format_removed(found.removed)
    took = found.took
    yield format_line(
        f"{took.calls} call{'s' if took.calls != 1 else ''}, {took.tokens} tokens, "
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


def _format_own_list(found: MissingReport) -> Iterator[Text]:
    """Yield how the paper covers the user's list."""
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


_TEX = re.compile(r"\\(?:end\{abstract\}|maketitle)\s*")


def find_missing_ablations(args: MissingAblations) -> int:
    if args.until and args.view != "author":
        raise UsageError("--until requires --as author: a reviewer sees the whole paper")
    if args.out is not None:
        check_output(args.out, args.paper, args.plan)
        if not args.out.absolute().parent.is_dir():
            raise UsageError(f"--out {args.out} cannot be written: give a file in an existing folder")
    plan = _read_own_plan(args.plan)
    try:
        path, settings = _open_paper(args)
        if settings.models.list_candidates(PAPER_ABLATIONS)[0].name == "offline":
            raise UsageError(f"the offline model cannot read papers: {CONFIGURE_MODEL_HINT}")
        check_prices_known(settings)
        found = asyncio.run(_ask_report(args, path, settings, plan))
    except (TexError, RecordError) as error:
        raise UsageError(str(error)) from None
    if args.out is not None:
        write_file(args.out, entries_to_lines(to_entry(one.ablation) for one in found.missing))
    print_result(found, format_report(found), json=args.json)
    if args.out is not None and not args.json:
        print(f"written to {args.out}")
    return DONE


def _read_own_plan(path: Path | None) -> AblationPlanFile:
    """Read the user's list. Raises `UsageError`."""
    if path is None:
        return AblationPlanFile()
    try:
        found = read_plan(path.read_text(encoding="utf-8-sig").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read --plan {path}: {error}") from None
    if not found.entries or len(found.entries) > MAX_LISTED:
        why = "; ".join(found.faults[:3]) or f"{len(found.entries)} readable entries, not from 1 to {MAX_LISTED}"
        raise UsageError(f"--plan {path}: {why}: give one JSON object per line, with name, ablated_part and action")
    return found


def _open_paper(args: MissingAblations) -> tuple[Path, Settings]:
    """Return the file to read, and the settings, which are those of the run if there is one.

    Raises `UsageError`, `RecordError`, `JudgeError`.
    """
    if not args.paper.exists():
        raise UsageError(f"{args.paper} does not exist: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
    run = open_run_folder(args.paper)
    if not (run.is_dir() and is_run(run)):
        return args.paper, compose_settings(config=args.config, flags=args.flags)
    state = read_run_state(run)
    if state.started is None or state.paper.released is None:
        raise UsageError(f"{args.paper} has no paper yet: finish the run first with scientist resume {args.paper}")
    paper = asyncio.run(read_released_paper(state, RunFolder(run, state.paper.version)))
    return paper.path, override_settings(state.started.settings, state.overrides | args.flags)


async def _ask_report(args: MissingAblations, path: Path, settings: Settings, plan: AblationPlanFile) -> MissingReport:
    """Ask a model for the report, and look up its quotes. Raises `ModelError`, `JudgeError`."""
    seen = await read_visible_paper(path, show_all=args.view == "reviewer", until=args.until)
    log = MemoryLog()
    models = open_budgeted_models(settings, log)
    title, abstract = read_title_and_abstract(seen.paper)
    shown, text = seen.shown_paper, seen.paper.text
    kept, repeats = split_repeats(plan.entries)
    inputs = PaperAblationsInputs(
        view=args.view,
        title=title,
        abstract=abstract,
        paper=shown,
        most=args.k,
        plan=tuple(to_listed(one, f"e{number}") for number, one in enumerate(kept, 1)),
    )
    found = await models.make_client(0, 0).ask(PAPER_ABLATIONS, inputs)
    return MissingReport(
        paper=str(args.paper),
        view=args.view,
        model=models.get_model_name(PAPER_ABLATIONS),
        shown=seen.kept,
        cut=seen.cut,
        left_out=shown.left_out,
        reasoning=found.reasoning,
        remarks=found.remarks,
        faults=plan.faults,
        repeats=repeats,
        removed=seen.removed,
        took=log.state.calls.total_usage,
        parts=tuple(_check_part_quotes(one, text) for one in found.parts),
        missing=tuple(CheckedAblation(ablation=one, quoted=quote_is_in(one.quote, text)) for one in found.ablations),
    )


def _check_part_quotes(one: AblatedPart, text: str) -> CheckedPart:
    quotes = (one.quote, one.where if one.ablated else "")
    return CheckedPart(part=one, quoted=all(quote_is_in(quote, text) for quote in quotes if quote))


def read_title_and_abstract(paper: Paper) -> tuple[str, str]:
    """Return title and abstract of a paper, as far as its format distinguishes them."""
    sections = paper.sections
    first = sections[0] if sections else PaperSection("", "")
    named = "" if first.title == TITLE_PAGE else first.title
    title = first.text if first.title == "Title" else named or first.text.strip().partition("\n\n")[0]
    abstract = next((one.text for one in sections if "abstract" in one.title.casefold()), "")
    return " ".join(title.removeprefix("Title:").split())[:300] or paper.path.stem, _TEX.sub("", abstract)[:4000]
