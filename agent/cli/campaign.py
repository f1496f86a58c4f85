"""`scientist campaign` and `queue`, and what `status`, `stop` and `resume` do with the folder of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field
from rich.table import Table
from rich.text import Text

from labwright.agent import campaign as work
from labwright.agent.campaign import QUEUE, STOP, Found, Runs, add, begin, files_in, ideas_in, keep_settings, slug
from labwright.agent.cli.checks import check_parts, check_places, check_space, check_writable, places_of, ready_packages
from labwright.agent.cli.commands import Campaign, QueueAdd, QueueList
from labwright.agent.cli.edge import DONE, FAILED, INTERRUPTED
from labwright.agent.cli.ideate import MOST_IDEAS, topic_in
from labwright.agent.cli.shown import answer, line, show, table
from labwright.agent.code import check_code
from labwright.agent.settings import Settings, compose
from labwright.inspector.text import dollars, duration, short
from labwright.record.campaign import (
    RUNS,
    CampaignEnded,
    CampaignEvent,
    CampaignLog,
    CampaignState,
    Chosen,
    Entry,
    IdeasFound,
    Launched,
    Prospect,
    Refused,
    RunEnded,
    Terms,
    amounts,
    is_campaign,
    read_campaign,
)
from labwright.record.claims.decisions import decided_together
from labwright.record.errors import WrongUse
from labwright.record.fold.facts import RoleUsage
from labwright.record.fold.state import RunState
from labwright.record.folder import write_file
from labwright.record.lock import RunLockedError, hold, holder
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.hypotheses import Decision
from labwright.record.reading import RecordError, is_run, read_state


class Verdict(Frozen):
    """Of a confirmatory hypothesis. `level`: at which it was looked at, after correction over the campaign."""

    hypothesis: str
    verdict: str
    level: float
    confirmed: bool


class Line(Frozen):
    """One idea of the table, or a topic whose ideas are not found yet."""

    name: str
    title: str
    state: str
    why: str = ""
    verdicts: tuple[Verdict, ...] = ()
    judge: float | None = None
    took: RoleUsage = RoleUsage()
    hours: float = 0.0
    prospect: Prospect | None = None


class Report(Frozen):
    """A campaign as it stands."""

    folder: str
    working: str = ""
    lines: tuple[Line, ...]
    usd: float
    hours: float
    tests: dict[str, int] = Field(default_factory=dict)
    """Dataset -> studies that scored its test split."""
    left: dict[str, float] = Field(default_factory=dict)
    """What is limited, seconds among it -> how much is neither spent nor set aside."""


def campaign(asked: Campaign) -> int:
    settings = compose(config=asked.config, flags=asked.flags)
    found = [*ideas_in(asked.ideas or ()), *topics_in(asked.topic or (), ideas_asked(asked))]
    if not found:
        raise WrongUse("nothing to run: name files of ideas, or give --topic")
    check_code(settings)
    check_parts(settings)
    check_writable(asked.out, "--out")
    check_space(settings, asked.out)
    check_places(settings)
    terms = terms_of(settings, parallel=asked.parallel, keep=asked.keep)
    ready_packages(settings.sandbox)
    begin(found, settings, terms, asked.out)
    return work_on(asked.out, json=asked.json)


def ideas_asked(asked: Campaign) -> int:
    if not 1 <= asked.count <= MOST_IDEAS:
        raise WrongUse(f"-n {asked.count}: ask for 1 to {MOST_IDEAS} ideas for a topic")
    return asked.count


def topics_in(places: Sequence[Path], ideas: int) -> Iterator[Found]:
    """Topics, as MLR-Bench's tasks: files, and every .md of a folder. Raises `WrongUse`."""
    for file in files_in(places, "*.md", "topics"):
        if file.stem.lower() != "readme":
            yield Found(slug(file.stem), str(file), text=topic_in(file)[0], ideas=ideas)


def terms_of(
    settings: Settings, *, parallel: int | None, keep: int | None = None, of: Literal["ideas", "tasks"] = "ideas"
) -> Terms:
    """What holds over all runs, of settings that are for one: caps, time where it is limited, and places at work."""
    fit = places_of(settings)
    slots = min(settings.search.num_workers, fit or settings.search.num_workers)
    limited = settings.time_limit != Settings().time_limit
    return Terms(
        of=of,
        parallel=parallel or slots,
        slots=slots,
        caps=amounts(settings.budget.model_dump()),
        keep=keep,
        seconds=settings.time_limit if limited else None,
    )


def work_on(folder: Path, *, json: bool = False) -> int:
    """Work on a campaign to its end, and show what came of it."""
    folder = folder.absolute()
    terms = read_campaign(folder).terms
    if terms is not None and terms.of == "tasks":
        raise WrongUse(f"{folder} is a benchmark's: go on with the command that began it (scientist bench)")
    state = work.Campaign(
        folder,
        Runs(folder, keep=terms is not None and terms.keep is not None),
        told=(lambda _: None) if json else _tell,
    ).work()
    shown(folder, json=json)
    standings = {one.standing for one in state.entries.values()}
    if standings & {"waiting", "interrupted", "to be chosen"}:
        return INTERRUPTED
    return DONE if standings <= {"done", "set aside"} else FAILED


def _tell(event: CampaignEvent) -> None:
    match event:
        case Refused():
            show([line(f"{event.name}: refused: {short(event.why, 300)}", "yellow")])
        case Launched():
            caps = ", ".join(f"{cap:.4g} {what.replace('_', ' ')}" for what, cap in event.share.caps.items())
            show([line(f"{event.name}: begun" + (f", with at most {caps}" if caps else ""))])
        case IdeasFound():
            show([line(f"{event.name}: {len(event.ideas)} ideas: {', '.join(name for name, _ in event.ideas)}")])
        case RunEnded() if event.prospect is None:
            ended = "killed" if event.code is None else f"exit {event.code}"
            show([line(f"{event.name}: ended ({ended})" + (f": {short(event.why, 200)}" if event.why else ""))])
        case RunEnded():
            show([line(f"{event.name}: its preliminary stage is done, {prospect_text(event.prospect)}")])
        case Chosen():
            show([line(f"chosen by what an hour decides: {', '.join(event.names)}", "bold")])
        case CampaignEnded() if event.why:
            show([line(event.why)])
        case _:
            pass


def prospect_text(one: Prospect | None) -> str:
    if one is None or one.why:
        return one.why if one is not None else ""
    asks = ", ".join(f"{name} {n} seeds" for name, n in one.wanted.items())
    return f"{one.decided} of {one.hypotheses} claims in {duration(3600 * one.hours)} of computing ({asks})"


# --- the table ------------------------------------------------------------------------------------------------------


def shown(folder: Path, *, json: bool = False) -> int:
    found = report(folder)
    answer(found, _lines(found), json=json)
    return DONE


def report(folder: Path) -> Report:
    """Where every idea stands, from the records. Raises `WrongUse`."""
    state = read_campaign(folder)
    runs = dict(_runs(folder, state))
    decided = decided_together(runs)
    lines = tuple(
        _line(one, runs.get(one.name), decided) for one in state.entries.values() if not (one.ideas and one.over)
    )
    assert state.terms is not None
    left = {what: cap - state.committed(what) for what, cap in state.terms.caps.items()}
    if state.terms.seconds is not None:
        left["seconds"] = max(0.0, state.terms.seconds - state.active_seconds)
    return Report(
        folder=str(folder),
        working=holder(folder) or "",
        lines=lines,
        hours=sum(one.hours for one in lines),
        usd=sum(one.spent.get("usd", 0.0) for one in state.entries.values()),
        left=left,
        tests=dict(Counter(data.name for run in runs.values() if run.tests for data in run.datasets)),
    )


def _runs(folder: Path, state: CampaignState) -> Iterator[tuple[str, RunState]]:
    for name in state.entries:
        run = folder / RUNS / name
        if is_run(run):
            try:
                yield name, read_state(run)
            except RecordError:
                continue


def _line(one: Entry, run: RunState | None, decided: Mapping[str, tuple[Decision, ...]]) -> Line:
    code = one.end.code if one.end is not None else None
    ended = {0: "released", 3: "released, cut short", 4: "not released"}.get(code if code is not None else -1, "done")
    base = Line(
        name=one.name,
        title=one.title,
        why=one.why,
        prospect=one.end.prospect if one.end is not None else None,
        state=ended if one.standing == "done" else one.standing,
    )
    if run is None:
        return base
    judged = run.assessed.judgement if run.assessed is not None else None
    scores = {score.dimension.lower(): score.score for score in judged.scores} if judged is not None else {}
    return base.model_copy(
        update={
            "judge": scores.get("overall"),
            "took": run.total,
            "hours": run.active_seconds / 3600,
            "verdicts": tuple(
                Verdict(hypothesis=each.hypothesis.id, verdict=each.verdict, level=each.level, confirmed=each.confirmed)
                for each in decided.get(one.name, ())
                if each.hypothesis.confirmatory
            ),
        }
    )


def _lines(found: Report) -> Iterator[Text | Table]:
    rows = [
        (
            one.name,
            one.state,
            _verdicts(one) or short(one.why or prospect_text(one.prospect), 60),
            "-" if one.judge is None else f"{one.judge:g}",
            dollars(one.took.usd, one.took.unpriced),
            duration(one.hours * 3600),
        )
        for one in found.lines
    ]
    yield table("idea", "state", "verdicts", "judge", "cost", "time", rows=rows)
    yield line(
        f"{len(found.lines)} ideas, ${found.usd:.2f}, {duration(3600 * found.hours)} of runs"
        + (f"; {found.working} works on it" if found.working else "")
    )
    if any(each.confirmed for one in found.lines for each in one.verdicts):
        yield line("verdicts are corrected for one another over the campaign (Holm); each paper's are within it alone")
    if tests := {name: uses for name, uses in found.tests.items() if uses > 1}:
        yield line(
            "test splits that more than one study scored: "
            + ", ".join(f"{name} ({uses})" for name, uses in tests.items())
        )


def _verdicts(one: Line) -> str:
    return "; ".join(
        f"{each.hypothesis} {each.verdict}" + ("" if each.confirmed else " (preview)") for each in one.verdicts
    )


# --- steering -------------------------------------------------------------------------------------------------------


def stop(folder: Path) -> int:
    """Ask the process that works on a campaign to stop."""
    if (who := holder(folder)) is None:
        print(f"nothing to stop: no process works on {folder}")
        return DONE
    write_file(folder / STOP, "")
    print(f"asked {who}: runs end gently; continue with: scientist resume {folder}")
    return DONE


def queue_add(asked: QueueAdd) -> int:
    state = read_campaign(asked.campaign)
    found = list(ideas_in(asked.ideas))
    if broken := next((one for one in found if one.why), None):
        raise WrongUse(broken.why)
    if text := next((one for one in found if one.idea is None), None):
        raise WrongUse(f"{text.source} is a proposal: make an idea of it first (scientist run --idea, --dry-run)")
    names = [one.name for one in found]
    if known := next((name for name in names if name in state.entries or names.count(name) > 1), None):
        raise WrongUse(f"{asked.campaign} has an idea called {known} already: change its Name")
    if not _added(asked.campaign, found):
        print(f"{len(found)} added; {holder(asked.campaign) or 'the process at work'} takes them up")
    return DONE


def _added(folder: Path, found: list[Found]) -> bool:
    """Whether ideas were put into the record, where nobody works on it; else they wait for the process that does."""
    try:
        with hold(folder):
            log = CampaignLog(folder)
            for one in found:
                add(log, one)
    except RunLockedError:
        for one in found:
            assert one.idea is not None
            keep_settings(folder, one)
            write_file(folder / QUEUE / f"{one.name}.json", one.idea.model_dump_json(by_alias=True))
        return False
    print(f"{len(found)} added; run them: scientist resume {folder}")
    return True


def queue_list(asked: QueueList) -> int:
    if not is_campaign(asked.campaign):
        raise WrongUse(f"{asked.campaign} is no campaign: give the folder of one")
    return shown(asked.campaign, json=asked.json)
