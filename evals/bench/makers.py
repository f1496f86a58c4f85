"""What makes and judges the four steps: an ideation of one idea, its proposal, a run's experiments, and its paper.

Everything lies in the task's folder: `ideas/` (an ideation), `run/` (a run with its own log, resumable like any other),
and in `idea/`, `proposal/` and `experiment/` the documents that are judged. The budget of the settings holds for the
ideation and the run of a task together, the time limit for its run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.agent.budget import open_model
from labwright.agent.campaign import spent_of
from labwright.agent.cli.edge import INTERRUPTED
from labwright.agent.ideation import LOG, IdeaTask, ideate
from labwright.agent.run import resume, start
from labwright.agent.settings import Settings, override
from labwright.evals.bench.report import experiment_report
from labwright.evals.bench.tasks import Outcome, Scoring, StepName, Task
from labwright.evals.bench.work import Interrupted, Maker
from labwright.models.errors import BudgetSpent
from labwright.models.roles.judge import JUDGE
from labwright.models.settings import ModelSettings
from labwright.record.campaign import Amounts
from labwright.record.claims.means import paper_claims, winner
from labwright.record.events import Event
from labwright.record.exchanges import spent_in
from labwright.record.fold.apply import fold
from labwright.record.fold.facts import RoleUsage, total_of
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, write_file
from labwright.record.log import MemoryLog
from labwright.record.nouns.idea import read_idea
from labwright.record.nouns.papers import JUDGING
from labwright.record.reading import RecordError, is_run, read_events, read_state
from labwright.review.judge import (
    Case,
    code_exhibit,
    file_exhibit,
    guarded,
    judged,
    read_paper,
    rubric_called,
    screened,
)
from labwright.stages.ideation.ideas import Step, idea_text, ideas_of
from labwright.stages.judging import case_of

ROUNDS = 3
"""Reflections on an idea."""
IDEA_ROLES = ("digest", "idea", "idea_reflect", "idea_of")
PAPER_ROLES = ("figures", "figure_review", "outline", "write", "reflect", "missing_ablations")
RUBRICS: dict[StepName, str] = {
    "idea": "idea",
    "proposal": "proposal",
    "experiment": "experiments",
    "paper": "end-to-end",
}
"""Step -> name of the bundled rubric by which it is judged."""


@dataclass(frozen=True)
class Makers:
    """The four steps with the settings of a bench."""

    settings: Settings

    @property
    def all(self) -> dict[StepName, Maker]:
        return {"idea": self.idea, "proposal": self.proposal, "experiment": self.experiment, "paper": self.paper}

    def idea(self, task: Task, folder: Path) -> Outcome:
        """One idea for the task, as `idea/idea.md`."""
        state = self._ideate(task, folder, ("idea",))
        ideas = ideas_of(state)
        if not ideas:
            return Outcome(state="failed", why=next(iter(state.conceived.values())).reason)
        write_file(folder / "idea" / "idea.md", idea_text(ideas[0][1]))
        took = took_by(state, IDEA_ROLES)
        return Outcome(state="done", document="idea/idea.md", took=took, seconds=took.seconds)

    def proposal(self, task: Task, folder: Path) -> Outcome:
        """Its literature review and proposal, as `proposal/proposal.md`."""
        state = self._ideate(task, folder, ("idea", "literature", "proposal"))
        written = folder / "ideas" / "idea-1" / "proposal.md"
        write_file(folder / "proposal" / "proposal.md", written.read_text(encoding="utf-8"))
        took = state.usage_without(*IDEA_ROLES)
        return Outcome(state="done", document="proposal/proposal.md", took=took, seconds=took.seconds)

    def experiment(self, task: Task, folder: Path) -> Outcome:
        """A run of the idea, to the end of its paper; the report on its experiments is `experiment/report.md`."""
        state = self._run(folder)
        best = winner(state)
        took = state.usage_without(*PAPER_ROLES, *JUDGING)
        seconds = round(state.active_seconds - took_by(state, PAPER_ROLES).seconds, 1)
        if best is None or not paper_claims(state):
            ended = state.ended.reason if state.ended else ""
            return Outcome(state="failed", why=ended or "no experiment was measured", took=took, seconds=seconds)
        write_file(folder / "experiment" / "report.md", experiment_report(state))
        return Outcome(
            state="done",
            document="experiment/report.md",
            took=took,
            seconds=seconds,
            code=str(RunFolder(folder / "run").source(best).relative_to(folder)),
        )

    def paper(self, task: Task, folder: Path) -> Outcome:
        """The paper of that run: the PDF, or its LaTeX. A paper that was not released is judged too, with a remark."""
        state = self._run(folder)
        took = took_by(state, PAPER_ROLES)
        if state.released is None:
            why = state.ended.reason if state.ended and state.ended.reason else "the run ended without a paper"
            return Outcome(state="failed", why=why, took=took, seconds=took.seconds)
        run = RunFolder(folder / "run", state.version)
        file = run.paper / (Path(state.released.pdf).name if state.released.pdf else "paper.tex")
        best = winner(state)
        return Outcome(
            state="done",
            document=str(file.relative_to(folder)),
            took=took,
            seconds=took.seconds,
            code=str(run.source(best).relative_to(folder)) if best else "",
            why="" if state.released.released else f"not released: {'; '.join(state.released.reasons)}",
        )

    def _ideate(self, task: Task, folder: Path, steps: tuple[Step, ...]) -> RunState:
        order = IdeaTask(task.text, task.sha256, name=f"{task.name}.md", count=1, rounds=ROUNDS, steps=steps)
        return ideate(
            order,
            self._without(run_state(folder)),
            folder / "ideas",
            on_idea=lambda number, idea: None,
            listener=lambda event, state: None,
        )

    def _run(self, folder: Path) -> RunState:
        """The run of the task's idea at its end. Raises `Interrupted`, and what starting and resuming raise."""
        run = folder / "run"
        if not is_run(run):
            idea = read_idea(folder / "ideas" / "ideas.json", 0)
            code = start(idea, self._without(ideation_state(folder)), runs=folder, name="run", listener=_show_nothing)
        elif (state := read_state(run)).phase != "done":
            caps = self._without(ideation_state(folder)).budget.model_dump(exclude_none=True)
            code = resume(
                run,
                {f"budget.{what}": cap for what, cap in caps.items()}
                | {"time_limit": state.active_seconds + self.settings.time_limit},
                listener=_show_nothing,
            )
        else:
            return read_state(run)
        state = read_state(run)
        if code == INTERRUPTED:
            raise Interrupted(state.ended.reason if state.ended else "interrupted")
        return state

    def _without(self, other: RunState | None) -> Settings:
        """The settings with what is left of the budget beside what another part of the task took."""
        took = spent_of(other) if other is not None else {}
        caps = {
            what: cap - took.get(what, 0.0) for what, cap in self.settings.budget.model_dump(exclude_none=True).items()
        }
        if any(cap <= 0 for cap in caps.values()):
            raise BudgetSpent(f"the task's part of the budget is used up: {', '.join(caps)}")
        return override(
            self.settings.model_dump(mode="json"),
            {f"budget.{what}": int(cap) if what.endswith("tokens") else cap for what, cap in caps.items()},
        )


def ideation_state(folder: Path) -> RunState | None:
    """The ideation of a task as it stands; None where there is none."""
    try:
        return fold(read_events(folder / "ideas" / LOG))
    except RecordError:
        return None


def run_state(folder: Path) -> RunState | None:
    return read_state(folder / "run") if is_run(folder / "run") else None


def task_spent(folder: Path) -> Amounts:
    """What a task took, without its judging."""
    spent: Amounts = {}
    for state, subjects in ((ideation_state(folder), None), (run_state(folder), spent_in(folder / "run"))):
        for what, amount in spent_of(state, subjects).items() if state is not None else ():
            spent[what] = spent.get(what, 0.0) + amount
    return spent


def _show_nothing(event: Event, state: RunState) -> None:
    """Runs of a bench show nothing; `scientist status` shows their folders."""


def took_by(state: RunState, roles: Collection[str]) -> RoleUsage:
    """What the calls of some roles took."""
    return total_of(usage for role, usage in state.usage.items() if role in roles)


@dataclass(frozen=True)
class StepJudge:
    """Judges each step's document by that step's rubric with one model, beside the task and its code."""

    settings: ModelSettings

    def __call__(self, task: Task, step: StepName, folder: Path, outcome: Outcome) -> Scoring:
        """The judgement. Raises `ModelError`, `JudgeError`, `TexError`."""
        log = MemoryLog()
        models = open_model(self.settings, log)
        client = models.at(0, 0)
        case = asyncio.run(screened(asyncio.run(_case(step, folder, outcome)), client))
        judgement = asyncio.run(judged(case, client, model=models.name_of(JUDGE)))
        return Scoring(judgement=judgement, state="done", took=log.state.total)


async def _case(step: StepName, folder: Path, outcome: Outcome) -> Case:
    """What is judged; a paper with the facts of its run's record."""
    rubric = rubric_called(RUBRICS[step])
    if step == "paper":
        state = read_state(folder / "run")
        case = await case_of(state, RunFolder(folder / "run", state.version), rubric)
    else:
        case = Case(await guarded(await read_paper(folder / outcome.document)), rubric, outcome.document)
    exhibits = [file_exhibit("task", folder / "task.md")]
    if outcome.code and (folder / outcome.code).is_dir():
        exhibits.append(code_exhibit(folder / outcome.code, case.guarded.paper.text))
    return replace(case, name=outcome.document, exhibits=tuple(exhibits))
