"""The makers of the four steps: an ideation of one idea, its proposal, and a run that experiments and writes a paper.

Everything lies in the task's folder: `ideas/` (an ideation), `run/` (a run of its own log, resumable as any), and in
`idea/`, `proposal/` and `experiment/` the documents that are judged. Budget and time limit of the settings hold for
each ideation and for each run by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agent.bench.outcomes import Outcome, StepName
from agent.bench.report import experiment_report
from agent.bench.tasks import Task
from agent.bench.working import Interrupted, Maker
from agent.commands.asking import Took
from agent.commands.edge import INTERRUPTED
from agent.ideation import Order, ideate
from agent.settings import Settings
from record.claims import paper_claims, winner
from record.events.event import Event
from record.fold.state import RunState
from record.folder import RunFolder, write_file
from record.idea_file import read_idea
from record.log import is_run, read_state
from stages.ideation.ideas import ideas_of
from stages.ideation.writing_up import Step, idea_text

ROUNDS = 3
"""Reflections on an idea."""
IDEA_ROLES = ("digest", "idea", "idea_reflect", "idea_of")
PAPER_ROLES = ("figures", "figure_review", "outline", "write", "reflect", "missing_ablations")


@dataclass(frozen=True)
class Makers:
    """The four steps with the settings of a bench."""

    settings: Settings

    @property
    def all(self) -> dict[StepName, Maker]:
        return {"idea": self.idea, "proposal": self.proposal, "experiment": self.experiment, "paper": self.paper}

    def idea(self, task: Task, home: Path) -> Outcome:
        """One idea for the task, as `idea/idea.md`."""
        state = self._ideated(task, home, ("idea",))
        found = ideas_of(state)
        if not found:
            return Outcome(state="failed", why=next(iter(state.conceived.values())).reason)
        write_file(home / "idea" / "idea.md", idea_text(found[0][1]))
        return Outcome(state="done", document="idea/idea.md", took=took_by(state, IDEA_ROLES),
                       seconds=seconds_of(state, IDEA_ROLES))

    def proposal(self, task: Task, home: Path) -> Outcome:
        """Its literature review and proposal, as `proposal/proposal.md`."""
        state = self._ideated(task, home, ("idea", "literature", "proposal"))
        written = home / "ideas" / "idea-1" / "proposal.md"
        write_file(home / "proposal" / "proposal.md", written.read_text(encoding="utf-8"))
        roles = set(state.usage) - set(IDEA_ROLES)
        return Outcome(state="done", document="proposal/proposal.md", took=took_by(state, roles),
                       seconds=seconds_of(state, roles))

    def experiment(self, task: Task, home: Path) -> Outcome:
        """A run of the idea, to the end of its paper; the report on its experiments is `experiment/report.md`."""
        state = self._run(home)
        best = winner(state)
        roles = set(state.usage) - {*PAPER_ROLES, "judge"}
        took = took_by(state, roles)
        seconds = round(state.active_seconds - seconds_of(state, PAPER_ROLES), 1)
        if best is None or not paper_claims(state):
            ended = state.ended.reason if state.ended else ""
            return Outcome(state="failed", why=ended or "no experiment was measured", took=took, seconds=seconds)
        write_file(home / "experiment" / "report.md", experiment_report(state))
        return Outcome(state="done", document="experiment/report.md", took=took, seconds=seconds,
                       code=str(RunFolder(home / "run").source(best).relative_to(home)))

    def paper(self, task: Task, home: Path) -> Outcome:
        """The paper of that run: the PDF, or its LaTeX. A paper that was not released is judged too, and said to be so.
        """
        state = self._run(home)
        took, seconds = took_by(state, PAPER_ROLES), seconds_of(state, PAPER_ROLES)
        if state.released is None:
            why = state.ended.reason if state.ended and state.ended.reason else "the run ended without a paper"
            return Outcome(state="failed", why=why, took=took, seconds=seconds)
        folder = RunFolder(home / "run", state.version)
        file = folder.paper / (Path(state.released.pdf).name if state.released.pdf else "paper.tex")
        best = winner(state)
        return Outcome(
            state="done", document=str(file.relative_to(home)), took=took, seconds=seconds,
            code=str(folder.source(best).relative_to(home)) if best else "",
            why="" if state.released.released else f"not released: {'; '.join(state.released.reasons)}")

    def _ideated(self, task: Task, home: Path, steps: tuple[Step, ...]) -> RunState:
        order = Order(topic=task.text, sha256=task.sha256, name=f"{task.name}.md", count=1, rounds=ROUNDS, steps=steps)
        return ideate(order, self.settings, home / "ideas", told=lambda number, one: None, read=lambda one: None)

    def _run(self, home: Path) -> RunState:
        """The run of the task's idea at its end. Raises `Interrupted`, and what starting and resuming raise."""
        from agent.run import resume, start

        folder = home / "run"
        if is_run(folder) and read_state(folder).phase == "done":
            return read_state(folder)
        if is_run(folder):
            code = resume(folder, {}, listener=_silent)
        else:
            idea = read_idea(home / "ideas" / "ideas.json", 0)
            code = start(idea, self.settings, runs=home, name="run", listener=_silent)
        state = read_state(folder)
        if code == INTERRUPTED:
            raise Interrupted(state.ended.reason if state.ended else "interrupted")
        return state


def _silent(event: Event, state: RunState) -> None:
    """Runs of a bench show nothing; `scientist status` on their folders does."""


def took_by(state: RunState, roles: Collection[str]) -> Took:
    """What the calls of some roles took."""
    used = [one for role, one in state.usage.items() if role in roles]
    return Took(calls=sum(one.calls for one in used), input_tokens=sum(one.input_tokens for one in used),
                output_tokens=sum(one.output_tokens for one in used), usd=round(sum(one.usd for one in used), 6),
                unpriced=sum(one.unpriced for one in used))


def seconds_of(state: RunState, roles: Collection[str]) -> float:
    """Seconds that the calls of some roles took."""
    return round(sum(one.seconds for role, one in state.usage.items() if role in roles), 1)
