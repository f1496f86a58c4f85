"""`scientist bench mlr`: what is done once stays done, failures are told and are no zeros, and each step is judged."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labwright.agent import forecast
from labwright.agent.cli import main
from labwright.evals.bench.command import run_one_task as process_of_a_task
from labwright.evals.bench.table import build_table, table_to_csv
from labwright.evals.bench.tasks import (
    STEPS,
    BenchTask,
    MlrBench,
    StepLine,
    StepMaker,
    StepName,
    StepOutcome,
    StepScoring,
    find_needed_steps,
    is_complete,
    read_lines,
    read_result,
    read_tasks,
    run_task,
    save_task_text,
)
from labwright.evals.item_loop import ItemInterrupted
from labwright.models.errors import CatalogueError, ModelRefused
from labwright.models.offline.researcher import ANSWER_FUNCTIONS
from labwright.models.replay import ScriptedModel
from labwright.models.roles.judge import Influence, JudgeInputs, build_answer_type
from labwright.record.event_log import RecordError
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema.paper import DimensionScore, Judgement
from tests.agent.test_cli_bad_input import refused
from tests.ideation.ideas_of_the_study import add_ideas
from tests.stages.test_judge_step import FIGURES

pytestmark = pytest.mark.slow

TASKS = tuple(BenchTask(name, f"the task {name} is text") for name in ("a", "b", "c"))
OFFLINE = ("--set", "literature.sources=[]")


class Hands:
    """Makers and a judge that count their work; `trouble` is raised at (task, step)."""

    def __init__(self, **trouble: Exception) -> None:
        self.trouble = trouble
        self.worked: list[str] = []
        self.scores = {"a": 4, "b": 7, "c": 9}

    def maker(self, step: StepName) -> StepMaker:
        def make(task: BenchTask, folder: Path) -> StepOutcome:
            self.worked.append(f"{task.name}_{step}")
            if error := self.trouble.get(f"{task.name}_{step}"):
                raise error
            return StepOutcome(state="done", document=f"{step}.md", took=RoleUsage(calls=1, usd=0.5), seconds=2.0)

        return make

    def judge(self, task: BenchTask, step: StepName, folder: Path, outcome: StepOutcome) -> StepScoring:
        self.worked.append(f"{task.name}_{step}_judged")
        if error := self.trouble.get(f"{task.name}_{step}_judged"):
            raise error
        score = DimensionScore(
            dimension="overall", score=self.scores[task.name], lowest=1, highest=10, reason="r", quote="q", quoted=True
        )
        return StepScoring(
            state="done",
            took=RoleUsage(calls=1, unpriced=1),
            judgement=Judgement(
                paper="p",
                paper_sha256="",
                rubric=step,
                rubric_sha256="",
                model="m",
                scores=(score,),
                confidence=3,
                most_confidence=5,
            ),
        )

    def bench(self, out: Path, *asked: StepName) -> MlrBench:
        return MlrBench(out, asked or STEPS, {step: self.maker(step) for step in STEPS}, self.judge)

    def work(self, out: Path, tasks: Sequence[BenchTask] = TASKS, *asked: StepName) -> tuple[StepLine, ...]:
        """Every task worked on, one after the other, as processes of their own do."""
        for task in tasks:
            run_task(self.bench(out, *asked), task)
        return read_lines(out, asked or STEPS, [task.name for task in tasks])


def test_what_is_asked_for_brings_what_it_is_made_from() -> None:
    assert find_needed_steps(("paper",)) == ("idea", "experiment", "paper") and find_needed_steps(("proposal",)) == (
        "idea",
        "proposal",
    )
    assert find_needed_steps(STEPS) == STEPS


def test_end_to_end_judges_the_paper_alone(tmp_path: Path) -> None:
    hands = Hands()
    hands.work(tmp_path, TASKS[:1], "paper")
    assert hands.worked == ["a_idea", "a_experiment", "a_paper", "a_paper_judged"]


def test_a_failing_task_does_not_end_the_others_and_is_no_zero(tmp_path: Path) -> None:
    hands = Hands(
        a_experiment=ModelRefused("no"),
        b_idea=CatalogueError("not in the catalogue"),
        c_paper_judged=ModelRefused("prose"),
    )
    lines = hands.work(tmp_path)
    states = {(line.task, line.step): line.outcome.state for line in lines}
    assert states["a", "experiment"] == "failed" and states["a", "paper"] == "not begun"
    assert states["b", "idea"] == "refused" and states["b", "proposal"] == "not begun"
    assert states["c", "paper"] == "done"
    found = build_table(lines, model="m", judge="j")
    idea, _, experiment, paper, _ = found.steps
    assert (idea.done, idea.refused, idea.judged) == (2, 1, 2) and not found.is_complete
    assert [(one.mean, one.sd, one.n) for one in idea.means] == [(6.5, 3.5355, 2)], "no zero for the refused one"
    assert (experiment.failed, experiment.not_begun) == (1, 1) and experiment.means[0].sd is None
    assert (paper.done, paper.judged, paper.not_judged, paper.means) == (1, 0, 1, ())
    assert (idea.took.calls, idea.took.usd, idea.judging.unpriced, idea.seconds) == (2, 1.0, 2, 4.0)
    rows = {(row["task"], row["step"]): row for row in csv.DictReader(io.StringIO(table_to_csv(found)))}
    assert rows["a", "idea"]["overall"] == "4" and rows["b", "idea"]["overall"] == ""
    assert rows["b", "idea"]["why"] == "not in the catalogue" and rows["c", "paper"]["judged"] == "failed"


def test_what_is_done_is_not_done_again_and_the_rest_is_tried_again(tmp_path: Path) -> None:
    first = Hands(a_proposal=ItemInterrupted("Ctrl-C"))
    with pytest.raises(ItemInterrupted):
        first.work(tmp_path, TASKS[:2])
    second = Hands(b_paper_judged=ModelRefused("prose"))
    assert not is_complete(second.work(tmp_path, TASKS[:2]))
    assert first.worked[:2] == ["a_idea", "a_idea_judged"] and "a_idea" not in second.worked
    third = Hands()
    lines = third.work(tmp_path, TASKS[:2])
    assert third.worked == ["b_paper_judged"]
    assert is_complete(lines) and build_table(lines, model="m", judge="j").is_complete


def test_a_damaged_step_file_is_taken_up_again(tmp_path: Path) -> None:
    Hands().work(tmp_path, TASKS[:1], "idea")
    (tmp_path / "a" / "idea" / "step.json").write_text("{")
    again = Hands()
    again.work(tmp_path, TASKS[:1], "idea")
    assert again.worked == ["a_idea"] and read_result(tmp_path / "a" / "idea", StepOutcome) is not None


def test_a_task_that_changed_is_not_mixed_with_what_was_made(tmp_path: Path) -> None:
    save_task_text(tmp_path, TASKS[0])
    save_task_text(tmp_path, TASKS[0])
    with pytest.raises(RecordError, match="choose another --out"):
        save_task_text(tmp_path, BenchTask("a", "another text altogether"))


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task of the offline catalogue, and one that it does not know."""
    monkeypatch.chdir(tmp_path)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "noise.md").write_text("# Label noise\n\nDoes label smoothing help with label noise on small data?\n")
    (tasks / "proteins.md").write_text("# Proteins\n\nHow do proteins fold in the presence of chaperones?\n")
    (tasks / "README.md").write_text("not a task")
    return tmp_path


def sixes(request: Any) -> Any:
    if request.role.name == "influence":
        return Influence()
    if request.role.name != "judge":
        return ANSWER_FUNCTIONS[request.role.name](request.inputs)
    assert isinstance(request.inputs, JudgeInputs)
    rubric = request.inputs.rubric
    checks = {one.name: {"details": "d", "answer": True} for one in getattr(rubric, "checks", ())}
    scores = {one.name: {"score": 6, "reason": "r", "quote": "a quote of its own"} for one in rubric.dimensions}
    return build_answer_type(rubric).model_validate(
        {
            **(FIGURES if rubric.results else {}),
            "scores": scores,
            "confidence": 3,
            "strengths": ["s"],
            "weaknesses": ["w"],
            "checks": checks,
        }
    )


def test_what_a_model_refuses_is_no_zero(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "mlr", "--tasks", "tasks", "--steps", "idea,proposal", "--out", "out", "--json"]
    assert main([*arguments, *OFFLINE]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(one["done"], one["refused"], one["not_begun"]) for one in found["steps"]] == [(0, 2, 0), (0, 0, 2)]
    assert all(one["means"] == [] for one in found["steps"])
    assert json.loads((place / "out" / "results.json").read_text()) == found
    assert main(["status", "out"]) == 0 and "noise" in capsys.readouterr().out
    assert "continue with the command that started it" in refused(capsys, "resume", "out")


def test_each_step_is_judged_by_its_rubric_and_against_the_task(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made and judged before is not made again."""
    arguments = ["bench", "mlr", "--tasks", "tasks", "--only", "noise", "--steps", "idea,proposal", "--out", "out"]
    assert main([*arguments, *OFFLINE]) == 1
    add_ideas(monkeypatch)
    judge = ScriptedModel(sixes, name="offline")
    monkeypatch.setattr(forecast, "open_backend", lambda settings: judge)  # pyrefly: ignore
    assert process_of_a_task([str(place / "out"), "noise", "idea,proposal", *OFFLINE]) == 0
    assert main([*arguments, *OFFLINE]) == 0
    out = capsys.readouterr().out
    asked = [one.inputs for one in judge.requests]
    judged = {one.rubric.name: [each.kind for each in one.exhibits] for one in asked if isinstance(one, JudgeInputs)}
    assert judged == {"idea": ["task"], "proposal": ["task", "idea", "literature review"]}
    assert "# The literature review" in judge.requests[-1].prompt.user
    assert all(
        "label smoothing help with label noise" in one.prompt.user
        for one in judge.requests
        if isinstance(one.inputs, JudgeInputs)
    )
    assert "idea: 1 of 1 tasks done" in out and "6.0000" in out


def test_scores_of_several_judges_are_averaged(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each judge sees the same material; another set of judges needs another folder."""
    arguments = ["bench", "mlr", "--tasks", "tasks", "--only", "noise", "--steps", "idea", "--out", "out"]
    judges = ["--judges", "openai-chat:six@http://localhost:1/v1, openai-chat:nine@http://localhost:1/v1"]
    assert main([*arguments, *OFFLINE, *judges]) == 1
    add_ideas(monkeypatch)

    def answer(request: Any, name: str) -> Any:
        found: Any = sixes(request)
        if name.endswith("nine") and request.role.name == "judge":
            scores = {name: {**one, "score": 9} for name, one in found.scores.model_dump().items()}
            return found.model_validate(found.model_dump() | {"scores": scores})
        return found

    opened = list[str]()

    def open_scripted(settings: Any) -> ScriptedModel:
        opened.append(settings.name)
        return ScriptedModel(lambda request: answer(request, settings.name), name=settings.name)

    monkeypatch.setattr(forecast, "open_backend", open_scripted)
    assert process_of_a_task([str(place / "out"), "noise", "idea", *OFFLINE]) == 0
    assert main([*arguments, *OFFLINE, *judges]) == 0
    assert "7.5000" in capsys.readouterr().out
    [row] = csv.DictReader((place / "out" / "results.csv").read_text().splitlines())
    assert row["overall"] == "7.5" and {"openai-chat:six", "openai-chat:nine"} <= set(opened)
    assert "was created with" in refused(capsys, *arguments, *OFFLINE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tasks", "none"], "--tasks none is not a folder"),
        (["--tasks", "."], "contains no .md file"),
        (["--tasks", "tasks", "--only", "x*"], "matches none of the 2 tasks in tasks, such as noise"),
        (["--tasks", "tasks", "--steps", "idea,poem"], "name one or more of idea, proposal, experiment, paper"),
        (["--tasks", "tasks", "--steps", ""], "name one or more"),
        (["--tasks", "tasks", "--model", "nonsense"], "is not a model name"),
        (["--tasks", "tasks", "--out", "tasks/noise.md"], "is a file"),
    ],
)
def test_what_cannot_be_benched_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused(capsys, "bench", "mlr", *arguments)


def test_another_model_needs_another_folder_and_a_dry_run_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(place.rglob("*"))
    assert main(["bench", "mlr", "--tasks", "tasks", "--out", "out", "--dry-run"]) == 0
    assert "experiment: 0 of 2 done, 2 to make, 2 to judge" in capsys.readouterr().out
    assert sorted(place.rglob("*")) == before
    (place / "out").mkdir()
    (place / "out" / "models.json").write_text('{"model": "openai:x", "judge": "openai:x"}')
    assert "was created with model 'openai:x'" in refused(capsys, "bench", "mlr", "--tasks", "tasks", "--out", "out")


def test_tasks_are_texts(place: Path) -> None:
    assert [task.name for task in read_tasks(place / "tasks")] == ["noise", "proteins"]
    assert [task.name for task in read_tasks(place / "tasks", ("p*",))] == ["proteins"]
