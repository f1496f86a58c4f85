"""`scientist judge`: a paper, or the paper of a run, scored by a rubric. A run's log is only read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any

from rich.console import Console

from agent.audit import audit
from agent.cli.asking import open_model
from agent.cli.edge import DONE, FAILED, say
from agent.cli.judge_table import show, show_audit, show_removed
from agent.cli.status import run_folder
from agent.settings import compose, override
from inspector.follow import process_on
from models.offline.assessing import CONFIGURE
from models.roles.judge import JUDGE, Rubric
from models.settings import ModelSettings
from record.errors import WrongUse
from record.folder import RunFolder
from record.nouns.papers import AuditFacts, Judgement, Panel
from record.reading import RecordError, is_run, read_state
from review.evidence.tex import TexError
from review.foreign import audit_facts
from review.judge import (
    Case,
    Member,
    bundled,
    code_exhibit,
    family_warnings,
    file_exhibit,
    guarded,
    judged,
    panel,
    pictures,
    read_paper,
    rubric_called,
    without_pictures,
)
from review.judge.exhibits import MOST_PAGES
from stages.judging import case_of, write_report

MOST_JUDGES, MOST_REPEATS = 12, 20
LISTED_FINDINGS = 30


@dataclass(frozen=True)
class Material:
    """What a paper is held against, and how many of its pages are shown as pictures; None: the usual number."""

    task: Path | None
    code: Path | None
    log: Path | None
    results: Path | None
    pages: int | None


@dataclass(frozen=True)
class Judging:
    """By what rubric, by whom and how often a paper is judged. `flags` are settings by dotted key."""

    rubric: Rubric
    judges: tuple[str, ...]
    repeats: int
    material: Material
    flags: dict[str, Any]

    def offline(self, settings: ModelSettings) -> bool:
        """Whether the only judge is the offline model, which reads nothing."""
        return not self.judges and settings.candidates(JUDGE)[0].name == "offline"


def judge(
    paper: Path | None, rubric: str, judges: str, n: int, json: bool, flags: dict[str, Any], **material: Any,
) -> int:
    if rubric == "list":
        for name, one in bundled().items():
            print(f"{name}: {one.title}. {', '.join(part.name for part in (*one.checks, *one.dimensions))}")
        return DONE
    names = tuple(name.strip() for name in judges.split(",") if name.strip())
    if paper is None:
        raise WrongUse("Missing argument 'PAPER|RUN': give a paper or the folder of a run (scientist judge --help)")
    if len(names) > MOST_JUDGES or not 1 <= n <= MOST_REPEATS:
        raise WrongUse(f"--judges takes at most {MOST_JUDGES} models, and --n is from 1 to {MOST_REPEATS}")
    try:
        judging = Judging(rubric_called(rubric), names, n, Material(**material), flags)
        if not paper.exists():
            raise WrongUse(f"there is no {paper}: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
        work = _judge_run if paper.is_dir() and is_run(paper) else _judge_paper
        return work(judging, paper, as_json=json)
    except (TexError, RecordError) as error:
        raise WrongUse(str(error)) from None


def _judge_run(judging: Judging, path: Path, *, as_json: bool) -> int:
    folder = RunFolder(run_folder(path))
    if (process := process_on(folder.root)) is not None:
        raise WrongUse(f"{path} is being worked on by {process}: it judges its paper itself when it is done")
    state = read_state(folder.root)
    if state.started is None or state.released is None:
        raise WrongUse(f"{path} has no paper yet: bring it to its end first: scientist resume {path}")
    settings = override(state.started.settings, state.overrides | judging.flags).models
    report = audit(folder.root)
    findings = [f"{one.kind}, {one.where}: {one.what}" for one in report.findings]
    facts = AuditFacts(against="the record of its run", numbers=report.counts.get("numbers", 0),
                       counts=tuple(report.counts.items()), findings=tuple(findings[:LISTED_FINDINGS]),
                       more=max(0, len(findings) - LISTED_FINDINGS))

    async def work() -> Judgement | Panel:
        case = await case_of(state, RunFolder(folder.root, state.version), judging.rubric)
        case = await _with_material(case, judging.material, facts, look=not judging.offline(settings))
        return await _judgement(case, judging, settings, state.models)

    found = asyncio.run(work())
    _print(found, as_json=as_json)
    try:
        written = write_report(RunFolder(path), found)
    except OSError as error:
        say(f"the judgement above could not be written under {path}/review: {error.strerror}")
        return FAILED
    if not as_json:
        print(f"written to {written}")
    return _exit_code(found)


def _judge_paper(judging: Judging, path: Path, *, as_json: bool) -> int:
    settings, material = compose(flags=judging.flags).models, judging.material

    async def work() -> Judgement | Panel | None:
        facts = await audit_facts(path, results=material.results, code=material.code)
        paper = await guarded(await read_paper(path))
        if judging.offline(settings):
            if as_json:
                print(dumps({"paper": path.name, "scores": None, "audit": facts.model_dump(),
                             "removed": [one.model_dump() for one in paper.removed]}, indent=1))
            else:
                show_audit(facts, Console())
                show_removed(paper.removed, Console())
            return None
        case = await _with_material(Case(paper, judging.rubric, path.name), material, facts)
        return await _judgement(case, judging, settings)

    found = asyncio.run(work())
    if found is None:
        why = ("the offline model reads no papers but those of its own runs" if "models.name" in judging.flags
               else "no model is configured")
        raise WrongUse(f"{why}, so there is the audit and no score: {CONFIGURE}")
    _print(found, as_json=as_json)
    return _exit_code(found)


async def _with_material(case: Case, material: Material, facts: AuditFacts, *, look: bool = True) -> Case:
    """The case with the audit, the files given beside the paper, and pictures of its pages."""
    paper = case.guarded.paper
    exhibits = [file_exhibit("task", material.task)] if material.task is not None else []
    if material.log is not None:
        exhibits.append(file_exhibit("log", material.log))
    if material.code is not None:
        exhibits.append(code_exhibit(material.code, paper.text))
    most = 0 if not look else MOST_PAGES if material.pages is None else material.pages
    shown = await pictures(paper.path, case.guarded.pages, withheld=case.guarded.marked_pages, most=most) \
        if case.guarded.pages and most else None
    return replace(case, audit=facts, exhibits=tuple(exhibits), pictures=shown)


async def _judgement(
    case: Case, judging: Judging, settings: ModelSettings, writers: tuple[str, ...] = ()
) -> Judgement | Panel:
    """One judgement, or a panel where several were asked for. `writers`: the models that wrote the paper.

    Raises `ModelError` where there is only one judge and it gives none.
    """
    if not judging.judges and judging.repeats == 1:
        models = open_model(settings)
        shown = case if models.sees else without_pictures(case)
        found = await judged(shown, models.at(0, 0), model=models.name_of(JUDGE))
        return found if found.heuristic else found.model_copy(
            update={"warnings": family_warnings([models.name_of(JUDGE)], writers)})
    members = [Member(name.partition("@http")[0], open_model(settings.alone(name))) for name in judging.judges]
    members = members or [Member(settings.candidates(JUDGE)[0].name, open_model(settings))]
    return await panel(case, members, repeats=judging.repeats, writers=writers)


# --- what is printed and kept ---------------------------------------------------------------------------------------


def _print(found: Judgement | Panel, *, as_json: bool) -> None:
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        show(found, Console())


def _exit_code(found: Judgement | Panel) -> int:
    """1 where a panel gave no judgement at all."""
    if isinstance(found, Judgement) or not found.missing:
        return DONE
    say(f"{len(found.missing)} of {found.asked} judgements are missing, none was filled in")
    return DONE if found.judgements else FAILED
