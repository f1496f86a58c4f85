"""The last step of a run: its paper is judged, and the judgement recorded. Whatever comes of it, the release stands."""

from __future__ import annotations

import json
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.errors import ModelError
from labwright.models.roles.judge import JUDGE, Rubric
from labwright.record.events.papers import Assessed
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, sha256, write_file
from labwright.record.manifest import manifest
from labwright.record.nouns.papers import Judgement, Panel
from labwright.review.evidence.tex import TexError
from labwright.review.judge import (
    Case,
    JudgeError,
    Paper,
    facts_of,
    family_warnings,
    guarded,
    judged,
    read_paper,
    read_rubric,
    screened,
)
from labwright.review.judge.reader import PaperError
from labwright.stages.bench import Bench, do_work
from labwright.stages.paper.versions import best_of


async def judge(bench: Bench) -> None:
    """Record a judgement of the run's paper, or why there is none."""

    async def work(client: ModelClient) -> None:
        if bench.state.assessed is not None:
            return
        if not bench.paper.judge:
            bench.recorder.append(Assessed(why="judging is off (paper.judge)"))
            return
        try:
            judgement = await judge_run(
                bench.state, bench.folder, client, rubric=read_rubric(), model=bench.models.name_of(JUDGE)
            )
            report = write_report(bench.folder, judgement)
            files = {str(report.relative_to(bench.folder.root)): sha256(report)}
            listed = manifest(bench.state, bench.folder) | files
            write_file(bench.folder.root / "manifest.json", json.dumps(listed, indent=1))
            assessed = Assessed(judgement=judgement, files=files)
        except (ModelError, JudgeError, TexError, OSError) as error:
            assessed = Assessed(why=str(error))
        bench.recorder.append(assessed)

    await do_work(bench, bench.state.paper_task("judge"), work)


async def judge_run(
    state: RunState, folder: RunFolder, client: ModelClient, *, rubric: Rubric, model: str
) -> Judgement:
    """The judgement of a run's paper by a rubric. Raises `ModelError`, `JudgeError`, `TexError`."""
    case = await screened(await case_of(state, folder, rubric), client)
    found = await judged(case, client, model=model)
    return found.model_copy(update={"warnings": () if found.heuristic else family_warnings([model], state.models)})


async def case_of(state: RunState, folder: RunFolder, rubric: Rubric) -> Case:
    """A run's paper as the guards leave it, with the facts of its record. Raises `JudgeError`, `TexError`."""
    paper = await paper_of(state, folder)
    return Case(
        await guarded(paper),
        rubric,
        str(paper.path.relative_to(folder.root)),
        facts=facts_of(state, best_of(state.drafts).draft),
    )


async def paper_of(state: RunState, folder: RunFolder) -> Paper:
    """The paper of a run as its reader gets it: the PDF, or its LaTeX where none was made. Raises `PaperError`."""
    if state.released is None or not state.drafts:
        raise PaperError("this run has no paper yet; finish it first: scientist resume RUN")
    name = Path(state.released.pdf).name if state.released.pdf else "paper.tex"
    return await read_paper(folder.paper / name)


def write_report(folder: RunFolder, found: Judgement | Panel) -> Path:
    """The file that holds a judgement: `review/judge.json`, or the next free `judge-N.json`; none is overwritten."""
    text = found.model_dump_json(indent=1) + "\n"
    number = 1
    while True:
        path = folder.review / ("judge.json" if number == 1 else f"judge-{number}.json")
        if not path.exists():
            write_file(path, text)
            return path
        if path.read_text() == text:  # this very judgement, written before a kill
            return path
        number += 1
