"""`scientist campaign` and `queue`, and `status`, `stop` and `resume` for campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from math import ceil
from pathlib import Path
from typing import Literal

from pydantic import Field
from rich.text import Text

from labwright.agent import campaign
from labwright.agent.campaign import (
    QUEUE_FOLDER,
    STOP_FILE,
    CampaignItem,
    CampaignRuns,
    create_campaign,
    enqueue,
    find_files,
    read_campaign_ideas,
    save_settings,
    to_slug,
)
from labwright.agent.cli.commands import Campaign, QueueAdd, QueueList
from labwright.agent.cli.errors import DONE, FAILED, INTERRUPTED, format_line, print_lines, print_result
from labwright.agent.cli.idea import read_topic
from labwright.agent.cli.preflight import (
    check_components,
    check_disk_space,
    check_local_servers,
    check_slots,
    check_writable,
    count_slots,
    install_packages,
)
from labwright.agent.environment import choose_reviewer
from labwright.agent.repository_setup import check_code
from labwright.agent.settings import Settings, compose_settings, parse_duration
from labwright.inspector.portfolio import build_portfolio_table, shorten_table
from labwright.inspector.safe_text import format_dollars, format_duration, shorten
from labwright.record.campaign import (
    RUNS_FOLDER,
    CampaignEnded,
    CampaignEntry,
    CampaignEvent,
    CampaignLog,
    CampaignState,
    CampaignTerms,
    DecisionForecast,
    EntryRefused,
    IdeasFound,
    RunEnded,
    RunLaunched,
    StudiesSelected,
    is_campaign,
    keep_limited,
    read_campaign,
)
from labwright.record.claims.hypothesis_tests import decide_across_runs
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run, read_state
from labwright.record.lock import RunLockedError, acquire_lock, find_owner
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.run_folder import write_file
from labwright.record.schema import FrozenModel
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.table import Table, format_quantity

PILOT_SECONDS = 3600.0
"""Time limit of a pilot in a campaign without a time limit, and the maximum with one."""
PILOT_SHARE = 0.3
"""Share of the campaign's time for all pilots together."""
KEPT_SHARE = 1 / 4
"""Share of the ideas that continue at most, if no number is given."""


class CampaignVerdict(FrozenModel):
    """Verdict on a confirmatory hypothesis. `level` is the significance level after correction over the campaign."""

    hypothesis: str
    verdict: str
    level: float
    confirmed: bool


class CampaignRow(FrozenModel):
    """One row of the table: an idea, or a topic without ideas yet."""

    name: str
    title: str
    state: str
    why: str = ""
    verdicts: tuple[CampaignVerdict, ...] = ()
    judge: float | None = None
    cost: RoleUsage = RoleUsage()
    hours: float = 0.0
    prospect: DecisionForecast | None = None


class CampaignReport(FrozenModel):
    """State of a campaign."""

    folder: str
    working: str = ""
    lines: tuple[CampaignRow, ...]
    usd: float
    hours: float
    tests: dict[str, int] = Field(default_factory=dict)
    """Dataset -> number of studies that scored its test split."""
    remaining_budget: dict[str, float] = Field(default_factory=dict)
    """Budget item or `seconds` -> amount neither spent nor reserved."""


def run_campaign(args: Campaign) -> int:
    settings = choose_reviewer(compose_settings(config=args.config, flags=args.flags))
    found = [*read_campaign_ideas(args.ideas or ()), *read_topics(args.topic or (), args.count)]
    if not found:
        raise UsageError("nothing to run: give idea files or --topic")
    check_code(settings)
    check_components(settings)
    check_local_servers(settings.models)
    check_writable(args.out, "--out")
    check_disk_space(settings, args.out)
    check_slots(settings)
    terms = build_terms(settings, parallel=args.parallel)
    if args.portfolio or args.keep or args.pilot:
        terms = add_portfolio(terms, sum(max(1, one.idea_count) for one in found if not one.why), args.keep, args.pilot)
    install_packages(settings.sandbox)
    create_campaign(found, settings, terms, args.out)
    return run_in_folder(args.out, json=args.json)


def read_topics(places: Sequence[Path], ideas: int) -> Iterator[CampaignItem]:
    """Yield the topics in files, and in every .md file of folders (such as MLR-Bench's tasks/). Raises `UsageError`."""
    for file in find_files(places, "*.md", "topics"):
        if file.stem.lower() != "readme":
            yield CampaignItem(to_slug(file.stem), str(file), text=read_topic(file)[0], idea_count=ideas)


def build_terms(
    settings: Settings, *, parallel: int | None, item_count: Literal["ideas", "tasks"] = "ideas"
) -> CampaignTerms:
    """Convert the settings of a single run to the terms of a campaign: caps, time limit if set, and slots."""
    fit = count_slots(settings)
    slots = min(settings.search.num_workers, fit or settings.search.num_workers)
    limited = settings.time_limit != Settings().time_limit
    return CampaignTerms(
        entry_kind=item_count,
        parallel=parallel or slots,
        slots=slots,
        caps=keep_limited(settings.budget.model_dump()),
        seconds=settings.time_limit if limited else None,
    )


def add_portfolio(terms: CampaignTerms, ideas: int, keep: int | None, pilot: str | None) -> CampaignTerms:
    """Return the terms of a portfolio of this many ideas: how many may continue, and how long pilots take.

    Raises `UsageError`.
    """
    rounds = -(-ideas // terms.parallel)
    if pilot is None:
        limit = PILOT_SECONDS if terms.seconds is None else min(PILOT_SECONDS, PILOT_SHARE * terms.seconds / rounds)
    else:
        limit = parse_duration(pilot)
        if not isinstance(limit, float) or limit <= 0:
            raise UsageError(f"--pilot {pilot!r} is not a time: give one such as 1h, 30m or 90s")
        if terms.seconds is not None and limit * rounds >= terms.seconds:
            raise UsageError(
                f"--pilot {pilot}: pilots of {ideas} ideas, {terms.parallel} at a time, take the whole time limit: "
                "shorten them, or raise --time-limit"
            )
    kept = keep or ceil(KEPT_SHARE * ideas)
    return terms.model_copy(update={"keep": kept, "pilot_seconds": limit})


def run_in_folder(folder: Path, *, json: bool = False) -> int:
    """Run a campaign until it ends, and show the results."""
    folder = folder.absolute()
    terms = read_campaign(folder).terms
    if terms is not None and terms.entry_kind == "tasks":
        raise UsageError(
            f"{folder} belongs to a benchmark: continue with the command that started it (scientist bench)"
        )

    def report(event: CampaignEvent) -> None:
        if isinstance(event, StudiesSelected | CampaignEnded):
            write_portfolio(folder)
        if not json:
            print_lines(_format_event(event))

    state = campaign.CampaignRunner(
        folder, CampaignRuns(folder, kept=(terms is not None and terms.keep) or 0), listener=report
    ).run()
    show_campaign(folder, json=json)
    standings = {one.status for one in state.entries.values()}
    if standings & {"waiting", "interrupted", "to be chosen"}:
        return INTERRUPTED
    return DONE if standings <= {"done", "set aside"} else FAILED


def _format_event(event: CampaignEvent) -> Iterator[Text]:
    match event:
        case EntryRefused():
            yield format_line(f"{event.name}: refused: {shorten(event.why, 300)}", "yellow")
        case RunLaunched():
            caps = ", ".join(f"{cap:.4g} {what.replace('_', ' ')}" for what, cap in event.share.caps.items())
            yield format_line(f"{event.name}: started{f', with at most {caps}' if caps else ''}")
        case IdeasFound():
            names = ", ".join(name for name, _ in event.ideas)
            yield format_line(f"{event.name}: {format_quantity(len(event.ideas), 'idea')}: {names}")
        case RunEnded() if event.prospect is None:
            ended = "killed" if event.code is None else f"exit {event.code}"
            yield format_line(f"{event.name}: ended ({ended}){f': {shorten(event.why, 200)}' if event.why else ''}")
        case RunEnded():
            yield format_line(f"{event.name}: pilot done, {format_forecast(event.prospect)}")
        case StudiesSelected():
            best = f"selected by expected decided claims per compute hour: {', '.join(event.names) or 'none'}"
            yield format_line(best, "bold")
            yield from (format_line(f"{name}: set aside: {why}") for name, why in event.reasons.items())
        case CampaignEnded() if event.why:
            yield format_line(event.why)
        case _:
            pass


def format_forecast(one: DecisionForecast | None) -> str:
    if one is None or not one.decided_count:
        return one.undecided_reason if one is not None else ""
    asks = ", ".join(f"{name} {format_quantity(n, 'seed')}" for name, n in one.wanted.items())
    claims = format_quantity(one.hypotheses, "claim")
    return f"{one.decided_count} of {claims} in {format_duration(3600 * one.hours)} compute ({asks})"


# --- the table ------------------------------------------------------------------------------------------------------


def show_campaign(folder: Path, *, json: bool = False) -> int:
    found = build_report(folder)
    portfolio = build_portfolio_table(folder)
    lines = (*_format_report(found), *([shorten_table(portfolio)] if portfolio is not None else []))
    print_result(found, lines, json=json)
    return DONE


def write_portfolio(folder: Path) -> None:
    """Write the table of a portfolio, with the verdicts so far, as `portfolio.md` and `portfolio.csv`."""
    verdicts = {one.name: _format_verdicts(one) for one in build_report(folder).lines}
    if (table := build_portfolio_table(folder, verdicts)) is not None:
        write_file(folder / "portfolio.md", f"# {table.title}\n\n{table.to_markdown()}\n")
        write_file(folder / "portfolio.csv", table.to_csv())


def build_report(folder: Path) -> CampaignReport:
    """Build the report of every idea from the records. Raises `UsageError`."""
    state = read_campaign(folder)
    runs = dict(_read_runs(folder, state))
    decided = decide_across_runs(runs)
    lines = tuple(
        _build_row(one, runs.get(one.name), decided) for one in state.entries.values() if not (one.ideas and one.over)
    )
    assert state.terms is not None
    left = {what: cap - state.count_committed(what) for what, cap in state.terms.caps.items()}
    if state.terms.seconds is not None:
        left["seconds"] = max(0.0, state.terms.seconds - state.active_seconds)
    return CampaignReport(
        folder=str(folder),
        working=find_owner(folder) or "",
        lines=lines,
        hours=sum(one.hours for one in lines),
        usd=sum(one.spent.get("usd", 0.0) for one in state.entries.values()),
        remaining_budget=left,
        tests=dict(Counter(data.name for run in runs.values() for data in run.search.tested_datasets)),
    )


def _read_runs(folder: Path, state: CampaignState) -> Iterator[tuple[str, RunState]]:
    for name in state.entries:
        run = folder / RUNS_FOLDER / name
        if is_run(run):
            try:
                yield name, read_state(run)
            except RecordError:
                continue


def _build_row(
    one: CampaignEntry, run: RunState | None, decided: Mapping[str, tuple[HypothesisDecision, ...]]
) -> CampaignRow:
    code = one.end.code if one.end is not None else None
    ended = {0: "released", 3: "released, cut short", 4: "not released"}.get(code if code is not None else -1, "done")
    base = CampaignRow(
        name=one.name,
        title=one.title,
        why=one.status_reason,
        prospect=one.prospect,
        state=ended if one.status == "done" else one.status,
    )
    if run is None:
        return base
    judged = run.paper.judged.judgement if run.paper.judged is not None else None
    scores = {score.dimension.lower(): score.score for score in judged.scores} if judged is not None else {}
    return base.model_copy(
        update={
            "judge": scores.get("overall"),
            "cost": run.calls.total_usage,
            "hours": run.active_seconds / 3600,
            "verdicts": tuple(
                CampaignVerdict(
                    hypothesis=each.hypothesis.id, verdict=each.verdict, level=each.level, confirmed=each.confirmed
                )
                for each in decided.get(one.name, ())
                if each.hypothesis.confirmatory and (each.confirmed or not one.set_aside)
            ),
        }
    )


def _format_report(found: CampaignReport) -> Iterator[Text | Table]:
    rows = [
        (
            one.name,
            one.state,
            _format_verdicts(one) or shorten(one.why or format_forecast(one.prospect), 60),
            "-" if one.judge is None else f"{one.judge:g}",
            format_dollars(one.cost.usd, one.cost.unpriced),
            format_duration(one.hours * 3600),
        )
        for one in found.lines
    ]
    yield Table.of(("idea", "state", "verdicts", "judge", "cost", "time"), rows)
    yield format_line(
        f"{format_quantity(len(found.lines), 'idea')}, ${found.usd:.2f}, {format_duration(3600 * found.hours)} of runs"
        + (f"; in use by {found.working}" if found.working else "")
    )
    if any(each.confirmed for one in found.lines for each in one.verdicts):
        yield format_line("verdicts are corrected over the campaign (Holm); each paper corrects only its own")
    if tests := {name: uses for name, uses in found.tests.items() if uses > 1}:
        yield format_line(
            "test splits scored by more than one study: "
            + ", ".join(f"{name} ({uses})" for name, uses in tests.items())
        )


def _format_verdicts(one: CampaignRow) -> str:
    return "; ".join(
        f"{each.hypothesis} {each.verdict}" + ("" if each.confirmed else " (preview)") for each in one.verdicts
    )


# --- controlling a campaign ------------------------------------------------------------------------------------------


def request_stop(folder: Path) -> int:
    """Ask the process of a campaign to stop."""
    if (who := find_owner(folder)) is None:
        print(f"nothing to stop: no process is working on {folder}")
        return DONE
    write_file(folder / STOP_FILE, "")
    print(f"stop requested from {who}: runs stop after their grace period; continue with: scientist resume {folder}")
    return DONE


def add_to_queue(args: QueueAdd) -> int:
    state = read_campaign(args.campaign)
    found = list(read_campaign_ideas(args.ideas))
    if broken := next((one for one in found if one.why), None):
        raise UsageError(broken.why)
    if text := next((one for one in found if one.idea is None), None):
        raise UsageError(f"{text.source} is a proposal: convert it to an idea first (scientist run --idea, --dry-run)")
    names = [one.name for one in found]
    if known := next((name for name in names if name in state.entries or names.count(name) > 1), None):
        raise UsageError(f"{args.campaign} already has an idea named {known}: change its Name")
    if not _try_add(args.campaign, found):
        print(f"{len(found)} added; {find_owner(args.campaign) or 'the running process'} will start them")
    return DONE


def _try_add(folder: Path, found: list[CampaignItem]) -> bool:
    """If no process is working on the campaign, record the ideas and return True; otherwise queue them for that
    process.
    """
    try:
        with acquire_lock(folder), closing(CampaignLog(folder)) as log:
            for one in found:
                enqueue(log, one)
    except RunLockedError:
        for one in found:
            assert one.idea is not None
            save_settings(folder, one)
            write_file(folder / QUEUE_FOLDER / f"{one.name}.json", one.idea.model_dump_json(by_alias=True))
        return False
    print(f"{len(found)} added; run them: scientist resume {folder}")
    return True


def list_queue(args: QueueList) -> int:
    if not is_campaign(args.campaign):
        raise UsageError(f"{args.campaign} is not a campaign: give the folder of a campaign")
    return show_campaign(args.campaign, json=args.json)
