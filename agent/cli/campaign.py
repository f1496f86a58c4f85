"""`scientist campaign` and `queue`, and `status`, `stop` and `resume` for campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal

from pydantic import Field
from rich.text import Text

from labwright.agent.campaign import (
    QUEUE_FOLDER,
    STOP_FILE,
    CampaignRunner,
    CampaignRuns,
    create_campaign,
    enqueue,
    read_campaign_ideas,
)
from labwright.agent.cli.commands import Campaign, QueueAdd, QueueList
from labwright.agent.cli.errors import DONE, FAILED, INTERRUPTED, format_line, print_lines, print_result
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
from labwright.agent.settings import Settings, compose_settings
from labwright.inspector.safe_text import format_dollars, format_duration, shorten
from labwright.record.campaign import (
    RUNS_FOLDER,
    CampaignEnded,
    CampaignEntry,
    CampaignEvent,
    CampaignLog,
    CampaignState,
    CampaignTerms,
    EntryRefused,
    RunEnded,
    RunLaunched,
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


class CampaignVerdict(FrozenModel):
    """Verdict on a confirmatory hypothesis. `level` is the significance level after correction over the campaign."""

    hypothesis: str
    verdict: str
    level: float
    confirmed: bool


class CampaignRow(FrozenModel):
    """One row of the table: an idea."""

    name: str
    title: str
    state: str
    why: str = ""
    verdicts: tuple[CampaignVerdict, ...] = ()
    judge: float | None = None
    cost: RoleUsage = RoleUsage()
    hours: float = 0.0


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
    found = list(read_campaign_ideas(args.ideas or ()))
    if not found:
        raise UsageError("nothing to run: give idea files")
    check_code(settings)
    check_components(settings)
    check_local_servers(settings.models)
    check_writable(args.out, "--out")
    check_disk_space(settings, args.out)
    check_slots(settings)
    terms = build_terms(settings, parallel=args.parallel)
    install_packages(settings.sandbox)
    create_campaign(found, settings, terms, args.out)
    return run_in_folder(args.out, json=args.json)


def build_terms(
    settings: Settings, *, parallel: int | None, entry_kind: Literal["ideas", "tasks"] = "ideas"
) -> CampaignTerms:
    """Convert the settings of a single run to the terms of a campaign: caps, time limit if set, and slots."""
    fit = count_slots(settings)
    slots = min(settings.search.num_workers, fit or settings.search.num_workers)
    limited = settings.time_limit != Settings().time_limit
    return CampaignTerms(
        entry_kind=entry_kind,
        parallel=parallel or slots,
        slots=slots,
        caps=keep_limited(settings.budget.model_dump()),
        seconds=settings.time_limit if limited else None,
    )


def run_in_folder(folder: Path, *, json: bool = False) -> int:
    """Run a campaign until it ends, and show the results."""
    folder = folder.absolute()
    terms = read_campaign(folder).terms
    if terms is not None and terms.entry_kind == "tasks":
        raise UsageError(f"{folder} belongs to a benchmark: continue with the command that started it: scientist bench")

    def report(event: CampaignEvent) -> None:
        if not json:
            print_lines(_format_event(event))

    state = CampaignRunner(folder, CampaignRuns(folder), listener=report).run()
    show_campaign(folder, json=json)
    standings = {one.status for one in state.entries.values()}
    if standings & {"waiting", "interrupted"}:
        return INTERRUPTED
    return DONE if standings <= {"done"} else FAILED


def _format_event(event: CampaignEvent) -> Iterator[Text]:
    match event:
        case EntryRefused():
            yield format_line(f"{event.name}: refused: {shorten(event.why, 300)}", "yellow")
        case RunLaunched():
            caps = ", ".join(f"{cap:.4g} {what.replace('_', ' ')}" for what, cap in event.share.caps.items())
            yield format_line(f"{event.name}: started{f', with at most {caps}' if caps else ''}")
        case RunEnded():
            ended = "killed" if event.code is None else f"exit {event.code}"
            yield format_line(f"{event.name}: ended ({ended}){f': {shorten(event.why, 200)}' if event.why else ''}")
        case CampaignEnded() if event.why:
            yield format_line(event.why)
        case _:
            pass


# --- the table ------------------------------------------------------------------------------------------------------


def show_campaign(folder: Path, *, json: bool = False) -> int:
    found = build_report(folder)
    print_result(found, _format_report(found), json=json)
    return DONE


def build_report(folder: Path) -> CampaignReport:
    """Build the report of every idea from the records. Raises `UsageError`."""
    state = read_campaign(folder)
    runs = dict(_read_runs(folder, state))
    decided = decide_across_runs(runs)
    lines = tuple(_build_row(one, runs.get(one.name), decided) for one in state.entries.values())
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
    code = one.end.code if one.end is not None and one.end.code is not None else -1
    ended = {0: "released", 3: "released, cut short", 4: "not released"}.get(code, "done")
    run = run or RunState()
    judged = run.paper.judged.judgement if run.paper.judged is not None else None
    scores = {score.dimension.lower(): score.score for score in judged.scores} if judged is not None else {}
    return CampaignRow(
        name=one.name,
        title=one.title,
        why=one.status_reason,
        state=ended if one.status == "done" else one.status,
        judge=scores.get("overall"),
        cost=run.calls.total_usage,
        hours=run.active_seconds / 3600,
        verdicts=tuple(
            CampaignVerdict(
                hypothesis=each.hypothesis.id, verdict=each.verdict, level=each.level, confirmed=each.confirmed
            )
            for each in decided.get(one.name, ())
            if each.hypothesis.confirmatory
        ),
    )


def _format_report(found: CampaignReport) -> Iterator[Text | Table]:
    yield Table.of(("idea", "state", "verdicts", "judge", "cost", "time"), map(_list_cells, found.lines))
    spent = f"${found.usd:.2f}, {format_duration(3600 * found.hours)} of runs"
    working = f"; in use by {found.working}" if found.working else ""
    yield format_line(f"{format_quantity(len(found.lines), 'idea')}, {spent}{working}")
    if any(each.confirmed for one in found.lines for each in one.verdicts):
        yield format_line("verdicts are corrected over the campaign (Holm); each paper corrects only its own")
    if tests := ", ".join(f"{name} ({uses})" for name, uses in found.tests.items() if uses > 1):
        yield format_line(f"test splits scored by more than one study: {tests}")


def _list_cells(one: CampaignRow) -> tuple[str, ...]:
    marks = ((each, "" if each.confirmed else " (preview)") for each in one.verdicts)
    verdicts = "; ".join(f"{each.hypothesis} {each.verdict}{mark}" for each, mark in marks)
    judge, cost = "-" if one.judge is None else f"{one.judge:g}", format_dollars(one.cost.usd, one.cost.unpriced)
    return one.name, one.state, verdicts or shorten(one.why, 60), judge, cost, format_duration(one.hours * 3600)


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
    try:
        with acquire_lock(args.campaign), closing(CampaignLog(args.campaign)) as log:
            for one in found:
                enqueue(log, one)
        print(f"{len(found)} added; run them: scientist resume {args.campaign}")
    except RunLockedError:  # the process that works on the campaign reads the files
        for one in found:
            assert one.idea is not None
            write_file(args.campaign / QUEUE_FOLDER / f"{one.name}.json", one.idea.model_dump_json(by_alias=True))
        print(f"{len(found)} added; {find_owner(args.campaign) or 'the running process'} will start them")
    return DONE


def list_queue(args: QueueList) -> int:
    return show_campaign(args.campaign, json=args.json)
