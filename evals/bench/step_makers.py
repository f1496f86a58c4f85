"""Make and judge the steps: an idea, its proposal, a run's experiments, its paper, and how that is written.

The task's folder has `ideas/` (an ideation), `run/` (a resumable run with its own log), and the documents to judge
in `idea/`, `proposal/` and `experiment/`. The budget of the settings covers the ideation and the run of a task
together, the time limit only the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labwright.agent.campaign import compute_spent
from labwright.agent.cli.errors import INTERRUPTED
from labwright.agent.forecast import open_model
from labwright.agent.ideation import IdeaTask, ideate
from labwright.agent.run import resume_run, start_study
from labwright.agent.settings import Settings, override_settings
from labwright.evals.bench.table import format_experiment_report
from labwright.evals.bench.tasks import BenchTask, StepMaker, StepName, StepOutcome, StepScoring
from labwright.evals.item_loop import ItemInterrupted
from labwright.models.errors import BudgetSpent
from labwright.models.roles.judge import JUDGE, ExhibitKind
from labwright.models.settings import ModelSettings
from labwright.record.campaign import SpendingCaps
from labwright.record.claims.estimates import compute_paper_claims, find_winner
from labwright.record.event_log import MemoryLog, RecordError, is_run, read_events, read_state
from labwright.record.events import Event
from labwright.record.line_store import EVENTS_FILE
from labwright.record.llm_calls import read_exchanges
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RoleUsage, RunState, sum_usage
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema.idea import read_idea
from labwright.record.schema.paper import LATE_ROLES
from labwright.review.judge.attachments import build_code_exhibit, read_file_exhibit
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.injection_screening import screen_case
from labwright.review.judge.judge import JudgeCase, find_rubric, judge_case
from labwright.review.judge.paper_reader import read_paper
from labwright.stages.ideation.ideation_steps import WriteUpStep, format_idea, list_ideas
from labwright.stages.paper.paper_steps import build_case

REFLECTION_ROUNDS = 3
"""Reflections on an idea."""
IDEA_ROLES = ("digest", "idea", "idea_reflect", "idea_of")
PAPER_ROLES = ("figures", "figure_review", "outline", "write", "reflect", "missing_ablations")
RUBRICS: dict[StepName, str] = {
    "idea": "idea",
    "proposal": "proposal",
    "experiment": "experiments",
    "paper": "end-to-end",
    "writing": "writing",
}
"""Bundled rubric for each step."""
DOCUMENTS: dict[ExhibitKind, str] = {
    "idea": "idea/idea.md",
    "literature review": "ideas/idea-1/related_work.md",
    "proposal": "proposal/proposal.md",
    "report": "experiment/report.md",
}
SHOWN_DOCUMENTS: dict[StepName, int] = {"proposal": 2, "experiment": 3, "writing": 4}
"""Number of these that a step is judged with, as far as they were made. Source: MLR-Bench, section 2.1."""


@dataclass(frozen=True)
class StepMakers:
    """The steps with the settings of a benchmark."""

    settings: Settings

    @property
    def by_step(self) -> dict[StepName, StepMaker]:
        return {
            "idea": self.make_idea,
            "proposal": self.make_proposal,
            "experiment": self.make_experiment,
            "paper": self.make_paper,
            "writing": self.make_writing,
        }

    def make_idea(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Make one idea for the task, as `idea/idea.md`."""
        state = self._ideate(task, folder, ("idea",))
        ideas = list_ideas(state)
        if not ideas:
            return StepOutcome(state="failed", why=next(iter(state.ideation.proposed_ideas.values())).reason)
        write_file(folder / "idea" / "idea.md", format_idea(ideas[0][1]))
        took = compute_role_usage(state, IDEA_ROLES)
        return StepOutcome(state="done", document="idea/idea.md", took=took, seconds=took.seconds)

    def make_proposal(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Make its literature review and proposal, as `proposal/proposal.md`."""
        state = self._ideate(task, folder, ("idea", "literature", "proposal"))
        written = folder / "ideas" / "idea-1" / "proposal.md"
        write_file(folder / "proposal" / "proposal.md", written.read_text(encoding="utf-8"))
        usage = state.calls.sum_usage_without(*IDEA_ROLES)
        return StepOutcome(state="done", document="proposal/proposal.md", took=usage, seconds=usage.seconds)

    def make_experiment(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Run the idea up to the end of its paper; the report on its experiments is `experiment/report.md`."""
        state = self._run_experiments(folder)
        best = find_winner(state)
        usage = state.calls.sum_usage_without(*PAPER_ROLES, *LATE_ROLES)
        seconds = round(state.active_seconds - compute_role_usage(state, PAPER_ROLES).seconds, 1)
        if best is None or not compute_paper_claims(state):
            ended = state.process_end.reason if state.process_end else ""
            return StepOutcome(state="failed", why=ended or "no experiment was measured", took=usage, seconds=seconds)
        write_file(folder / "experiment" / "report.md", format_experiment_report(state, best))
        return StepOutcome(
            state="done",
            document="experiment/report.md",
            took=usage,
            seconds=seconds,
            code=str(RunFolder(folder / "run").get_source_path(best).relative_to(folder)),
        )

    def make_paper(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Return the paper of that run: the PDF, or its LaTeX.

        A paper that was not released is judged too, with a remark.
        """
        state = self._run_experiments(folder)
        usage = compute_role_usage(state, PAPER_ROLES)
        if state.paper.released is None:
            why = (
                state.process_end.reason
                if state.process_end and state.process_end.reason
                else "the run ended without a paper"
            )
            return StepOutcome(state="failed", why=why, took=usage, seconds=usage.seconds)
        run = RunFolder(folder / "run", state.paper.version)
        file = run.paper_folder / (Path(state.paper.released.pdf).name if state.paper.released.pdf else "paper.tex")
        best = find_winner(state)
        return StepOutcome(
            state="done",
            document=str(file.relative_to(folder)),
            took=usage,
            seconds=usage.seconds,
            code=str(run.get_source_path(best).relative_to(folder)) if best else "",
            why="" if state.paper.released.released else f"not released: {'; '.join(state.paper.released.reasons)}",
        )

    def make_writing(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Return the paper again, to be judged by its writing; it costs nothing further."""
        return self.make_paper(task, folder).model_copy(update={"took": RoleUsage(), "seconds": 0.0})

    def _ideate(self, task: BenchTask, folder: Path, steps: tuple[WriteUpStep, ...]) -> RunState:
        order = IdeaTask(task.text, task.sha256, name=f"{task.name}.md", count=1, rounds=REFLECTION_ROUNDS, steps=steps)
        return ideate(order, self._reduce_budget(read_run_state(folder)), folder / "ideas", listener=_ignore_event)

    def _run_experiments(self, folder: Path) -> RunState:
        """Return the finished run of the task's idea.

        Raises `ItemInterrupted`, and errors of starting and resuming.
        """
        run = folder / "run"
        if not is_run(run):
            idea = read_idea(folder / "ideas" / "ideas.json", 0)
            settings, proposal = self._reduce_budget(read_ideation_state(folder)), folder / DOCUMENTS["proposal"]
            if proposal.is_file() and settings.context is None:  # which the run reads, as MLR-Bench's agent does
                settings = settings.model_copy(update={"context": proposal.parent})
            code = start_study(idea, settings, runs=folder, name="run", listener=_ignore_event)
        elif (state := read_state(run)).phase != "done":
            caps = self._reduce_budget(read_ideation_state(folder)).budget.model_dump(exclude_none=True)
            code = resume_run(
                run,
                {f"budget.{what}": cap for what, cap in caps.items()}
                | {"time_limit": state.active_seconds + self.settings.time_limit},
                listener=_ignore_event,
            )
        else:
            return read_state(run)
        state = read_state(run)
        if code == INTERRUPTED:
            raise ItemInterrupted(state.process_end.reason if state.process_end else "interrupted")
        return state

    def _reduce_budget(self, other: RunState | None) -> Settings:
        """Return the settings with the budget that other parts of the task have left."""
        spent = compute_spent(other) if other is not None else {}
        caps = {
            what: cap - spent.get(what, 0.0) for what, cap in self.settings.budget.model_dump(exclude_none=True).items()
        }
        if any(cap <= 0 for cap in caps.values()):
            raise BudgetSpent(f"the task's share of the budget is used up: {', '.join(caps)}")
        return override_settings(
            self.settings.model_dump(mode="json"),
            {f"budget.{what}": int(cap) if what.endswith("tokens") else cap for what, cap in caps.items()},
        )


def read_ideation_state(folder: Path) -> RunState | None:
    """Return the state of a task's ideation; None if there is none."""
    try:
        return fold_events(read_events(folder / "ideas" / EVENTS_FILE))
    except RecordError:
        return None


def read_run_state(folder: Path) -> RunState | None:
    return read_state(folder / "run") if is_run(folder / "run") else None


def compute_task_spent(folder: Path) -> SpendingCaps:
    """Return what a task cost, without its judging."""
    spent: SpendingCaps = {}
    for state, subjects in (
        (read_ideation_state(folder), None),
        (read_run_state(folder), read_exchanges(folder / "run").spent),
    ):
        for what, amount in compute_spent(state, subjects).items() if state is not None else ():
            spent[what] = spent.get(what, 0.0) + amount
    return spent


def _ignore_event(event: Event, state: RunState) -> None:
    """Ignore events: a benchmark shows no progress of runs; `scientist status` does."""


def compute_role_usage(state: RunState, roles: Collection[str]) -> RoleUsage:
    """Return the usage of the calls of some roles."""
    return sum_usage(usage for role, usage in state.calls.usage_by_role.items() if role in roles)


def list_judge_settings(settings: ModelSettings, judges: Sequence[str]) -> list[ModelSettings]:
    """Return the settings of each judge; without names, of the model that the settings have for it."""
    return [settings.select_model(name) for name in judges] or [settings]


def judge_step(
    judges: Sequence[ModelSettings], task: BenchTask, step: StepName, folder: Path, outcome: StepOutcome
) -> StepScoring:
    """Return the judgements of a step's document by its rubric; each judge sees the task and the code too.

    Raises `ModelError`, `JudgeError`, `TexError`.
    """
    log = MemoryLog()
    opened = [open_model(one, log) for one in judges]
    clients = [one.make_client(number, 0) for number, one in enumerate(opened)]
    case = asyncio.run(screen_case(asyncio.run(build_step_case(step, folder, outcome)), *clients))
    first, *further = (
        asyncio.run(judge_case(case, client, model=one.get_model_name(JUDGE)))
        for one, client in zip(opened, clients, strict=True)
    )
    return StepScoring(judgement=first, further=tuple(further), state="done", took=log.state.calls.total_usage)


async def build_step_case(step: StepName, folder: Path, outcome: StepOutcome) -> JudgeCase:
    """Build the case to judge, with the documents that it follows; a paper comes with the facts of its run's record."""
    rubric = find_rubric(RUBRICS[step])
    if step in ("paper", "writing"):
        state = read_state(folder / "run")
        case = await build_case(state, RunFolder(folder / "run", state.paper.version), rubric)
    else:
        case = JudgeCase(await guard_paper(await read_paper(folder / outcome.document)), rubric, outcome.document)
    exhibits = [read_file_exhibit("task", folder / "task.md")]
    for kind, file in list(DOCUMENTS.items())[: SHOWN_DOCUMENTS.get(step, 0)]:
        if (folder / file).is_file():
            exhibits.append(read_file_exhibit(kind, folder / file))
    if outcome.code and (folder / outcome.code).is_dir():
        exhibits.append(build_code_exhibit(folder / outcome.code, case.guarded.paper.text))
    return replace(case, name=outcome.document, exhibits=tuple(exhibits))
