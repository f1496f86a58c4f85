"""`scientist judge`: a paper, or the paper of a run, scored by a rubric. A run's log is only read."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.commands.edge import DONE, FAILED, WrongUse, say
from agent.commands.look import process_on, run_folder
from agent.settings import compose, override
from inspector.text import plain
from record.folder import RunFolder
from record.judgement import DimensionScore, Judgement
from record.log import is_run as holds_run
from record.log import read_state

if TYPE_CHECKING:
    from models.door import Models
    from models.judgement import Rubric
    from models.settings import ModelSettings

NOT_QUOTED = "not in the paper"


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    path: Path
    rubric: Path | None = None
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    as_json: bool = False


def judge(request: Request) -> int:
    """Judge a paper or a run: print the judgement, and for a run write it under `review/`; returns the exit code."""
    from review.evidence.tex import TexError
    from review.judge import JudgeError, read_rubric

    try:
        rubric = read_rubric(request.rubric) if request.rubric is not None else read_rubric()
        if not request.path.exists():
            raise WrongUse(f"there is no {request.path}: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
        is_run = request.path.is_dir() and holds_run(request.path)
        found = _run(request, rubric) if is_run else _paper(request, rubric)
    except (JudgeError, TexError) as error:
        raise WrongUse(str(error)) from None
    if request.as_json:
        print(found.model_dump_json(indent=1))
    else:
        show(found, Console())
    return _written(found, request) if is_run else DONE


def _written(found: Judgement, request: Request) -> int:
    """Keep what was paid for; where nothing can be written, it was printed."""
    from stages.judging import write_report

    try:
        report = write_report(RunFolder(request.path), found)
    except OSError as error:
        say(f"the judgement above could not be written under {request.path}/review: {error.strerror}")
        return FAILED
    if not request.as_json:
        print(f"written to {report}")
    return DONE


def _run(request: Request, rubric: Rubric) -> Judgement:
    from stages.judging import judge_run

    folder = RunFolder(run_folder(request.path))
    if (process := process_on(folder.root)) is not None:
        raise WrongUse(f"{request.path} is being worked on by {process}: it judges its paper itself when it is done")
    state = read_state(folder.root)
    if state.started is None or state.released is None:
        raise WrongUse(f"{request.path} has no paper yet: bring it to its end first: scientist resume {request.path}")
    models = _models(override(state.started.settings, state.overrides | request.flags).models)
    return asyncio.run(judge_run(
        state, RunFolder(folder.root, state.version), models.at(0, 0), rubric=rubric, model=models.name_of("judge")))


def _paper(request: Request, rubric: Rubric) -> Judgement:
    from models.judgement import answer_type
    from review.judge import judgement, question, read_paper

    async def work(models: Models) -> Judgement:
        paper = await read_paper(request.path)
        asked = question(paper, rubric)
        answer = await models.at(0, 0).ask("judge", asked, answer_type(rubric))
        return judgement(answer, paper, asked, name=request.path.name, model=models.name_of("judge"))

    return asyncio.run(work(_models(compose(flags=request.flags).models)))


def _models(settings: ModelSettings) -> Models:
    """A door without a record behind it. Raises `ModelConfigError`."""
    from models.backend import open_backend
    from models.door import Models
    from models.ledger import MemoryLedger

    return Models(open_backend(settings), MemoryLedger(), settings, time.monotonic)


# --- the table ------------------------------------------------------------------------------------------------------


def show(found: Judgement, console: Console) -> None:
    """The judgement as a table, then what stands beside the scores."""
    console.print(Text(f"{plain(found.paper)} by the rubric {plain(found.rubric)}, judged by {plain(found.model)}"),
                  soft_wrap=True)
    if found.heuristic:
        console.print(Text("HEURISTIC: counted from the record of the run; nobody read the paper", style="bold yellow"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for name in ("dimension", "score", "reason"):
        table.add_column(name, no_wrap=name != "reason")
    for one in found.scores:
        table.add_row(one.dimension, f"{one.score}/{one.highest}", _ground(one))
    table.add_row("confidence", f"{found.confidence}/{found.most_confidence}", "")
    console.print(table)
    for sign, style, lines in (("+", "green", found.strengths), ("-", "red", found.weaknesses)):
        for line in lines:
            console.print(Text(f"{sign} ", style=style) + Text(plain(line)), soft_wrap=True)
    for line in found.left_out:
        console.print(Text(f"not shown to the judge: {plain(line)}", style="dim"), soft_wrap=True)


def _ground(one: DimensionScore) -> Text:
    """The reason of a score and its quote, marked where it does not stand in the paper."""
    mark = Text("") if one.quoted else Text(f" ({NOT_QUOTED})", style="bold red")
    return Text(f"{plain(one.reason)} ") + Text(f"\u201c{plain(one.quote)}\u201d", style="dim") + mark
