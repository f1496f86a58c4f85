"""The judge of a bench: each step's document by that step's rubric, guarded and held against the task, and its code."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from agent.bench.outcomes import Outcome, Scoring, StepName
from agent.bench.tasks import Task
from agent.commands.asking import open_model
from models.door import Desk
from models.settings import ModelSettings
from record.folder import RunFolder
from record.judgement import Judgement
from record.log import read_state
from review.judge import Case, code_exhibit, file_exhibit, guarded, judged, read_paper, rubric_called
from review.judge.exhibits import Shown
from stages.judging import case_of

RUBRICS: dict[StepName, str] = {
    "idea": "idea", "proposal": "proposal", "experiment": "experiments", "paper": "end-to-end"}
"""By the names of the bundled ones."""


@dataclass(frozen=True)
class StepJudge:
    """Judges with one model. A `working.Judge`."""

    settings: ModelSettings

    def __call__(self, task: Task, step: StepName, home: Path, outcome: Outcome) -> Scoring:
        """The judgement. Raises `ModelError`, `JudgeError`, `TexError`."""
        asking = open_model(self.settings)
        found = asyncio.run(_judged(step, home, outcome, asking.desk(0), asking.models.name_of("judge")))
        return Scoring(judgement=found, state="done", took=asking.took)


async def _judged(step: StepName, home: Path, outcome: Outcome, desk: Desk, model: str) -> Judgement:
    case = await _case(step, home, outcome)
    exhibits = _exhibits(home, outcome, case.guarded.paper.text)
    return await judged(replace(case, name=outcome.document, exhibits=exhibits, read_on=True), desk, model=model)


async def _case(step: StepName, home: Path, outcome: Outcome) -> Case:
    """What is judged, without the files beside it; a paper with the facts of its run's record."""
    rubric = rubric_called(RUBRICS[step])
    if step == "paper":
        state = read_state(home / "run")
        return await case_of(state, RunFolder(home / "run", state.version), rubric)
    return Case(await guarded(await read_paper(home / outcome.document)), rubric, outcome.document)


def _exhibits(home: Path, outcome: Outcome, text: str) -> tuple[Shown, ...]:
    """The task, and the code behind the document where there is any."""
    code = (code_exhibit(home / outcome.code, text),) if outcome.code and (home / outcome.code).is_dir() else ()
    return (file_exhibit("task", home / "task.md"), *code)
