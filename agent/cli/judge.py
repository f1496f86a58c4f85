"""`scientist judge`: a paper, or the paper of a run, scored by a rubric. A run's log is only read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from labwright.agent.audit import audit
from labwright.agent.beside import Beside, with_material
from labwright.agent.budget import open_model
from labwright.agent.cli.edge import DONE, FAILED, say
from labwright.agent.cli.judged import audit_lines, lines, removed_lines
from labwright.agent.cli.paper_commands import Judge
from labwright.agent.cli.shown import answer
from labwright.agent.cli.status import state_of_paper
from labwright.agent.settings import compose, override
from labwright.inspector.follow import process_on
from labwright.models.client import ModelClient
from labwright.models.offline.assessing import CONFIGURE
from labwright.models.roles.influence import INFLUENCE
from labwright.models.roles.judge import JUDGE, Rubric
from labwright.models.settings import ModelSettings
from labwright.record.errors import WrongUse
from labwright.record.folder import RunFolder
from labwright.record.nouns.papers import AuditFacts, Judgement, Panel
from labwright.record.reading import RecordError, is_run
from labwright.record.zips import refuse_zip
from labwright.review.evidence.tex import TexError
from labwright.review.foreign import audit_facts
from labwright.review.judge import (
    Case,
    Member,
    bundled,
    family_warnings,
    guarded,
    judged,
    panel,
    read_paper,
    rubric_called,
    without_pictures,
)
from labwright.stages.judging import case_of, write_report

MOST_JUDGES, MOST_REPEATS = 12, 20
LISTED_FINDINGS = 30


def judge(asked: Judge) -> int:
    if asked.rubric == "list":
        for name, one in bundled().items():
            print(f"{name}: {one.title}. {', '.join(part.name for part in (*one.checks, *one.dimensions))}")
        return DONE
    path, judges = asked.paper, [name.strip() for name in asked.judges.split(",") if name.strip()]
    if path is None:
        raise WrongUse("Missing argument 'PAPER|RUN': give a paper or the folder of a run (scientist judge --help)")
    if len(judges) > MOST_JUDGES or not 1 <= asked.n <= MOST_REPEATS:
        raise WrongUse(f"--judges takes at most {MOST_JUDGES} models, and --n is from 1 to {MOST_REPEATS}")
    try:
        rubric = rubric_called(asked.rubric)
        if not path.exists():
            raise WrongUse(f"there is no {path}: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
        refuse_zip(path)  # a judgement is written into the run
        if path.is_dir() and is_run(path):
            return _judge_run(asked, path, rubric, judges)
        found = asyncio.run(_judged_paper(asked, path, rubric, judges))
    except (TexError, RecordError) as error:
        raise WrongUse(str(error)) from None
    answer(found, lines(found), json=asked.json)
    return _exit_code(found)


def _judge_run(asked: Judge, path: Path, rubric: Rubric, judges: Sequence[str]) -> int:
    state = state_of_paper(path)
    if (process := process_on(path)) is not None:
        raise WrongUse(f"{path} is being worked on by {process}: it judges its paper itself when it is done")
    if state.started is None or state.released is None:
        raise WrongUse(f"{path} has no paper yet: finish the run first with scientist resume {path}")
    settings = override(state.started.settings, state.overrides | asked.flags).models
    facts = _audited(path) if asked.view == "all" else None

    async def work() -> Judgement | Panel:
        case = await case_of(state, RunFolder(path, state.version), rubric)
        case = await with_material(
            case, _beside(asked), facts, _readers(settings, judges), look=not _is_offline(settings, judges)
        )
        return await _judgement(case, settings, judges, asked.n, writers=state.models)

    found = asyncio.run(work())
    answer(found, lines(found), json=asked.json)
    try:
        written = write_report(RunFolder(path), found)
    except OSError as error:
        say(f"the judgement above could not be written under {path}/review: {error.strerror}")
        return FAILED
    if not asked.json:
        print(f"written to {written}")
    return _exit_code(found)


def _audited(path: Path) -> AuditFacts:
    """What the audit of a run found, as facts for a judge."""
    report = audit(path)
    findings = [f"{one.kind}, {one.where}: {one.what}" for one in report.findings]
    return AuditFacts(
        against="the record of its run",
        numbers=report.counts.get("numbers", 0),
        counts=tuple(report.counts.items()),
        findings=tuple(findings[:LISTED_FINDINGS]),
        more=max(0, len(findings) - LISTED_FINDINGS),
    )


async def _judged_paper(asked: Judge, path: Path, rubric: Rubric, judges: Sequence[str]) -> Judgement | Panel:
    """The judgement of a paper of others; the offline model reads none, so that its audit alone is printed."""
    settings = compose(flags=asked.flags).models
    audited = asked.view == "all" or _is_offline(settings, judges)
    log = asked.log if asked.log is not None and asked.log.is_file() else None  # one that is not there is refused below
    facts = await audit_facts(path, results=asked.results, code=asked.code, log=log) if audited else None
    paper = await guarded(await read_paper(path))
    if facts is not None and _is_offline(settings, judges):
        answer(
            {
                "paper": path.name,
                "scores": None,
                "audit": facts.model_dump(),
                "removed": [one.model_dump() for one in paper.removed],
            },
            (*audit_lines(facts), *removed_lines(paper.removed)),
            json=asked.json,
        )
        why = (
            "the offline model reads no papers but those of its own runs"
            if "models.name" in asked.flags
            else "no model is configured"
        )
        raise WrongUse(f"{why}, so there is the audit and no score: {CONFIGURE}")
    case = Case(paper, rubric, path.name)
    case = await with_material(case, _beside(asked), facts, _readers(settings, judges))
    return await _judgement(case, settings, judges, asked.n)


def _is_offline(settings: ModelSettings, judges: Sequence[str]) -> bool:
    """Whether the only judge is the offline model, which reads nothing."""
    return not judges and settings.candidates(JUDGE)[0].name == "offline"


def _beside(asked: Judge) -> Beside:
    return Beside(
        task=asked.task, code=asked.code, log=asked.log, results=asked.results, pages=asked.pages, view=asked.view
    )


def _readers(settings: ModelSettings, judges: Sequence[str]) -> list[ModelClient]:
    """Who reads for influence: the model of that role, or where none is configured the first judge that answers."""
    own = INFLUENCE.name in settings.roles or settings.name != "offline"
    given = [settings] if own or not judges else map(settings.alone, judges)
    return [open_model(one).at(0, 0) for one in given]


async def _judgement(
    case: Case, settings: ModelSettings, judges: Sequence[str], repeats: int, *, writers: tuple[str, ...] = ()
) -> Judgement | Panel:
    """One judgement, or a panel where several were asked for. `writers`: the models that wrote the paper.

    Raises `ModelError` where there is only one judge and it gives none.
    """
    if judges or repeats > 1:
        members = [Member(name.partition("@http")[0], open_model(settings.alone(name))) for name in judges]
        members = members or [Member(settings.candidates(JUDGE)[0].name, open_model(settings))]
        return await panel(case, members, repeats=repeats, writers=writers)
    models = open_model(settings)
    name = models.name_of(JUDGE)
    found = await judged(case if models.sees else without_pictures(case), models.at(0, 0), model=name)
    warnings = () if found.heuristic else family_warnings([name], writers)
    return found.model_copy(update={"warnings": warnings}) if warnings else found


def _exit_code(found: Judgement | Panel) -> int:
    """1 where a panel gave no judgement at all."""
    if isinstance(found, Judgement) or not found.missing:
        return DONE
    say(f"{len(found.missing)} of {found.asked} judgements are missing, none was filled in")
    return DONE if found.judgements else FAILED
