"""The last step of a run: judge its paper and record the judgement, which never affects the release."""

from __future__ import annotations

import json
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.errors import ModelError
from labwright.models.roles.judge import JUDGE, Rubric
from labwright.record.events.paper_events import PaperJudged
from labwright.record.manifest import build_manifest
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.record.schema.paper import Judgement, JudgePanel
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge import (
    JudgeCase,
    JudgeError,
    Paper,
    collect_record_facts,
    find_family_warnings,
    guard_paper,
    judge_case,
    read_paper,
    read_rubric,
    screen_case,
)
from labwright.review.judge.paper_reader import PaperError
from labwright.stages.paper.draft_versions import select_best
from labwright.stages.run_context import RunContext, run_once


async def judge_paper(context: RunContext) -> None:
    """Record a judgement of the run's paper, or the reason why there is none."""

    async def work(client: ModelClient) -> None:
        if context.state.paper.judged is not None:
            return
        if not context.paper.judge:
            context.recorder.append(PaperJudged(why="judging is disabled (paper.judge)"))
            return
        try:
            judgement = await judge_run(
                context.state, context.folder, client, rubric=read_rubric(), model=context.models.get_model_name(JUDGE)
            )
            report = write_judgement(context.folder, judgement)
            files = {str(report.relative_to(context.folder.root)): hash_file(report)}
            listed = build_manifest(context.state, context.folder) | files
            write_file(context.folder.root / "manifest.json", json.dumps(listed, indent=1))
            assessed = PaperJudged(judgement=judgement, files=files)
        except (ModelError, JudgeError, TexError, OSError) as error:
            assessed = PaperJudged(why=str(error))
        context.recorder.append(assessed)

    await run_once(context, context.state.paper.format_task("judge"), work)


async def judge_run(
    state: RunState, folder: RunFolder, client: ModelClient, *, rubric: Rubric, model: str
) -> Judgement:
    """Judge a run's paper by a rubric. Raises `ModelError`, `JudgeError`, `TexError`."""
    case = await screen_case(await build_case(state, folder, rubric), client)
    judgement = await judge_case(case, client, model=model)
    return judgement.model_copy(
        update={"warnings": () if judgement.heuristic else find_family_warnings([model], state.models)}
    )


async def build_case(state: RunState, folder: RunFolder, rubric: Rubric) -> JudgeCase:
    """Build the case: the guarded paper and the facts of the run's record. Raises `JudgeError`, `TexError`."""
    paper = await read_released_paper(state, folder)
    return JudgeCase(
        await guard_paper(paper),
        rubric,
        str(paper.path.relative_to(folder.root)),
        facts=collect_record_facts(state, select_best(state.paper.drafts).draft),
    )


async def read_released_paper(state: RunState, folder: RunFolder) -> Paper:
    """Read the released paper of a run: the PDF, or the LaTeX source if there is no PDF. Raises `PaperError`."""
    if state.paper.released is None or not state.paper.drafts:
        raise PaperError("this run has no paper yet; finish it with: scientist resume RUN")
    name = Path(state.paper.released.pdf).name if state.paper.released.pdf else "paper.tex"
    return await read_paper(folder.paper_folder / name)


def write_judgement(folder: RunFolder, judgement: Judgement | JudgePanel) -> Path:
    """Write a judgement to `review/judge.json` or the next free `judge-N.json`, and return the path."""
    text = judgement.model_dump_json(indent=1) + "\n"
    number = 1
    while True:
        path = folder.review / ("judge.json" if number == 1 else f"judge-{number}.json")
        if not path.exists():
            write_file(path, text)
            return path
        if path.read_text() == text:  # the same judgement, written before a kill
            return path
        number += 1
