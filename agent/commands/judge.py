"""`scientist judge`: a paper, or the paper of a run, scored by a rubric. A run's log is only read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agent.commands.edge import DONE, FAILED, WrongUse, say
from agent.commands.judge_table import show, show_audit, show_panel, show_removed
from agent.commands.look import process_on, run_folder
from agent.settings import compose, override
from models.roles.judge import JUDGE
from record.fold.state import RunState
from record.folder import RunFolder
from record.nouns.papers import AuditFacts, Judgement, Panel
from record.reading import RecordError, read_state
from record.reading import is_run as holds_run

if TYPE_CHECKING:
    from models.client import Models
    from models.roles.judge import Rubric
    from models.settings import ModelSettings
    from review.judge import Case

MOST_JUDGES, MOST_REPEATS = 12, 20
LISTED_FINDINGS = 30


@dataclass(frozen=True)
class Beside:
    """What a paper is held against, and how many of its pages are shown as pictures; None: as many as is usual."""

    task: Path | None = None
    code: Path | None = None
    log: Path | None = None
    results: Path | None = None
    pages: int | None = None


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    path: Path | None
    rubric: str = "end-to-end"
    judges: tuple[str, ...] = ()
    repeats: int = 1
    beside: Beside = Beside()
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    as_json: bool = False


def judge(request: Request) -> int:
    """Judge a paper or a run: print the judgement, and for a run write it under `review/`; returns the exit code."""
    from review.evidence.tex import TexError
    from review.foreign import ResultsError
    from review.judge import JudgeError, rubric_called

    if request.path is None:
        raise WrongUse("Missing argument 'PAPER|RUN': give a paper or the folder of a run (scientist judge --help)")
    if len(request.judges) > MOST_JUDGES or not 1 <= request.repeats <= MOST_REPEATS:
        raise WrongUse(f"--judges takes at most {MOST_JUDGES} models, and --n is from 1 to {MOST_REPEATS}")
    try:
        rubric = rubric_called(request.rubric)
        if not request.path.exists():
            raise WrongUse(f"there is no {request.path}: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
        is_run = request.path.is_dir() and holds_run(request.path)
        return (_run if is_run else _paper)(request, request.path, rubric)
    except (JudgeError, TexError, ResultsError, RecordError) as error:
        raise WrongUse(str(error)) from None


def list_rubrics() -> int:
    """Print the rubrics that come with the program."""
    from review.judge import bundled

    for name, one in bundled().items():
        asked = [part.name for part in (*one.checks, *one.dimensions)]
        print(f"{name}: {one.title}. {', '.join(asked)}")
    return DONE


def _run(request: Request, path: Path, rubric: Rubric) -> int:
    from stages.judging import case_of

    folder = RunFolder(run_folder(path))
    if (process := process_on(folder.root)) is not None:
        raise WrongUse(f"{path} is being worked on by {process}: it judges its paper itself when it is done")
    state = read_state(folder.root)
    if state.started is None or state.released is None:
        raise WrongUse(f"{path} has no paper yet: bring it to its end first: scientist resume {path}")
    settings = override(state.started.settings, state.overrides | request.flags).models
    facts = _audit_of_run(folder.root)

    async def work() -> Judgement | Panel:
        case = await case_of(state, RunFolder(folder.root, state.version), rubric)
        return await _judged(await _beside(case, request.beside, facts, look=not _offline(request, settings)), request,
                             settings, state)

    found = asyncio.run(work())
    _print(found, request)
    return _written(found, path, request) or _had(found)


def _paper(request: Request, path: Path, rubric: Rubric) -> int:
    from models.offline.assessing import CONFIGURE
    from review.foreign import audit_facts
    from review.judge import Case, guarded, read_paper

    settings = compose(flags=request.flags).models

    async def work() -> Judgement | Panel | None:
        facts = await audit_facts(path, results=request.beside.results, code=request.beside.code)
        paper = await guarded(await read_paper(path))
        if _offline(request, settings):
            _print_audit(facts, request, path.name, [one.model_dump() for one in paper.removed])
            if not request.as_json:
                show_removed(paper.removed, Console())
            return None
        case = await _beside(Case(paper, rubric, path.name), request.beside, facts)
        return await _judged(case, request, settings)

    found = asyncio.run(work())
    if found is None:
        named = "models.name" in request.flags
        why = "the offline model reads no papers but those of its own runs" if named else "no model is configured"
        raise WrongUse(f"{why}, so there is the audit and no score: {CONFIGURE}")
    _print(found, request)
    return _had(found)


def _offline(request: Request, settings: ModelSettings) -> bool:
    """Whether the only judge is the offline model, which reads nothing."""
    return not request.judges and settings.candidates(JUDGE)[0].name == "offline"


async def _beside(case: Case, beside: Beside, facts: AuditFacts, *, look: bool = True) -> Case:
    """The case with the audit, the files given beside the paper, and pictures of its pages."""
    from dataclasses import replace

    from review.judge import code_exhibit, file_exhibit, pictures
    from review.judge.exhibits import MOST_PAGES

    paper = case.guarded.paper
    given = [file_exhibit("task", beside.task)] if beside.task is not None else []
    if beside.log is not None:
        given.append(file_exhibit("log", beside.log))
    if beside.code is not None:
        given.append(code_exhibit(beside.code, paper.text))
    most = 0 if not look else MOST_PAGES if beside.pages is None else beside.pages
    shown = await pictures(paper.path, case.guarded.pages, withheld=case.guarded.marked_pages, most=most) \
        if case.guarded.pages and most else None
    return replace(case, audit=facts, exhibits=tuple(given), pictures=shown, read_on=True)


async def _judged(
    case: Case, request: Request, settings: ModelSettings, state: RunState | None = None
) -> Judgement | Panel:
    """One judgement, or a panel where several were asked for. Raises `ModelError` where the only one is not had."""
    from review.judge import Member, family_warnings, judged, panel, without_pictures

    writers = state.models if state else ()
    if not request.judges and request.repeats == 1:
        models = _models(settings)
        shown = case if models.sees else without_pictures(case)
        found = await judged(shown, models.at(0, 0), model=models.name_of(JUDGE))
        return found if found.heuristic else found.model_copy(
            update={"warnings": family_warnings([models.name_of(JUDGE)], writers)})
    members = [Member(name.partition("@http")[0], _models(settings.alone(name))) for name in request.judges]
    members = members or [Member(settings.candidates(JUDGE)[0].name, _models(settings))]
    return await panel(case, members, repeats=request.repeats, writers=writers)


def _models(settings: ModelSettings) -> Models:
    """A door without a record behind it. Raises `ModelConfigError`."""
    from agent.commands.asking import open_model

    return open_model(settings).models


def _audit_of_run(root: Path) -> AuditFacts:
    """What `scientist audit` finds on a run, as facts."""
    from agent.audit import audit

    report = audit(root)
    lines = [f"{one.kind}, {one.where}: {one.what}" for one in report.findings]
    return AuditFacts(against="the record of its run", numbers=report.counts.get("numbers", 0),
                      counts=tuple(report.counts.items()), findings=tuple(lines[:LISTED_FINDINGS]),
                      more=max(0, len(lines) - LISTED_FINDINGS))


# --- what is printed and kept ---------------------------------------------------------------------------------------


def _print(found: Judgement | Panel, request: Request) -> None:
    if request.as_json:
        print(found.model_dump_json(indent=1))
    elif isinstance(found, Judgement):
        show(found, Console())
    else:
        show_panel(found, Console())


def _print_audit(facts: AuditFacts, request: Request, name: str, removed: list[dict[str, Any]]) -> None:
    if request.as_json:
        print(json.dumps({"paper": name, "scores": None, "audit": facts.model_dump(), "removed": removed},
                         indent=1))
    else:
        show_audit(facts, Console())


def _had(found: Judgement | Panel) -> int:
    """The exit code: 1 where a panel gave no judgement at all."""
    if isinstance(found, Judgement) or not found.missing:
        return DONE
    say(f"{len(found.missing)} of {found.asked} judgements are missing, none was filled in")
    return DONE if found.judgements else FAILED


def _written(found: Judgement | Panel, path: Path, request: Request) -> int:
    """Keep what was paid for; where nothing can be written, it was printed."""
    from stages.judging import write_report

    try:
        report = write_report(RunFolder(path), found)
    except OSError as error:
        say(f"the judgement above could not be written under {path}/review: {error.strerror}")
        return FAILED
    if not request.as_json:
        print(f"written to {report}")
    return DONE
