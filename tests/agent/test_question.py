"""`scientist run --code REPO --task FILE`: designed before anything changes, mended, bound to what was measured."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from labwright.agent.question import read_question

from labwright.agent import budget, question
from labwright.agent.cli import main
from labwright.models.backend import ModelRequest
from labwright.models.roles.questions import (
    CodeAnswer,
    ConclusionAnswer,
    DesignAnswer,
    QuestionCodeInputs,
    QuestionConclusionInputs,
    QuestionInputs,
    StatedDirection,
    StatedNumber,
)
from labwright.models.scripted_model import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError
from labwright.record.schema.research_question import DesignedArm, DesignedMetric, ExperimentDesign, ExperimentVariable
from labwright.record.source_edits import WholeFile
from labwright.stages.repository.question import read_script_results
from tests.agent.test_cli_bad_input import refused
from tests.evals.exp_set import make_repository
from tests.repositories import run_git

pytestmark = pytest.mark.slow

DESIGN = ExperimentDesign(
    constants=(ExperimentVariable(name="draws", value="40"),),
    varied=(ExperimentVariable(name="spread", value="1 and 3"),),
    arms=(DesignedArm(name="near", what="spread 1"), DesignedArm(name="far", what="spread 3")),
    metrics=(DesignedMetric(name="distance", higher_is_better=False, what="mean absolute draw"),),
    seeds=5,
    hypothesis="A larger spread raises the distance.",
    rule="distance of far against near, paired by seed",
)
CODE = """import json
import time
from pathlib import Path
from lib.draws import draws

time.sleep(0.6)  # what is left of the time may not change a question that was answered
arms = {name: [sum(draws(seed, spread)) / 40 for seed in range(5)] for name, spread in (("near", 1.0), ("far", 3.0))}
Path("out").mkdir(exist_ok=True)
Path("out/results.json").write_text(json.dumps({"distance": arms}))
"""
SCRIPT = "set -e\nPYTHONPATH=. python work/spread.py\n"
TOML = """question = "Does a larger spread raise the distance?"
method = "Draw with both spreads."
run = "python -c 'print(0.5)' {seed}"
measure = {stdout = '([0-9.]+)', better = "lower"}
protect = ["lib/*"]
seeds = 2
minutes = 2
"""


class Author:
    """Answers as a careful author would who errs once at each step."""

    def __init__(self) -> None:
        self.asked: list[QuestionInputs | QuestionConclusionInputs] = []
        self.die = ""

    def __call__(self, request: ModelRequest) -> DesignAnswer | CodeAnswer | ConclusionAnswer:
        inputs = request.inputs
        assert isinstance(inputs, QuestionInputs | QuestionConclusionInputs)
        self.asked.append(inputs)
        if self.die == request.role.name:
            raise KeyboardInterrupt
        if isinstance(inputs, QuestionConclusionInputs):
            mean = float(inputs.measured[1].partition("mean ")[2].partition(",")[0])
            factor = "by a factor of 9.87" if not inputs.complaints else f"to {mean:.3f} for far"
            return ConclusionAnswer(
                conclusion=f"A larger spread raises the distance, {factor}, over 5 seeds.",
                numbers=(StatedNumber(text=f"{mean:.3f}", what="mean", metric="distance", arm="far"),),
                directions=(StatedDirection(metric="distance", first="near", second="far", second_is="higher"),),
            )
        if isinstance(inputs, QuestionCodeInputs):
            if inputs.asked.protect and not inputs.complaints:
                return CodeAnswer(files=(WholeFile(path="lib/draws.py", text="x = 1\n"),), script=SCRIPT)
            broken = not inputs.failed and not inputs.asked.protect
            return CodeAnswer(
                files=(WholeFile(path="work/spread.py", text="import no_such\n" if broken else CODE),), script=SCRIPT
            )
        if inputs.requests_left == 3 and not inputs.requested:
            return DesignAnswer(wants=("lib/draws.py:draws",))
        return DesignAnswer(design=DESIGN)


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    monkeypatch.chdir(tmp_path)
    make_repository(tmp_path / "repo")
    (tmp_path / "ask.md").write_text("Does a larger spread raise the distance?\n")
    (tmp_path / "ask.toml").write_text(TOML)
    made = Author()

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(made)

    monkeypatch.setattr(budget, "open_backend", opened)
    monkeypatch.setattr(question, "open_backend", opened)
    return made


def asked(task: str = "ask.md", *more: str) -> int:
    return main(["run", "--code", "repo", "--task", task, "--name", "q", *more])


def test_links_that_are_committed_lead_nowhere(author: Author, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "results.json").write_text("{}")
    for name in ("out", "work"):
        (tmp_path / "repo" / name).symlink_to(outside)
    run_git(tmp_path / "repo", "add", "-A")
    run_git(tmp_path / "repo", "commit", "-qm", "links")
    assert asked() == 4
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("results.json", "{}")]
    assert "work is a symbolic link" in (tmp_path / "runs" / "q" / "report.md").read_text()


def test_it_is_designed_carried_out_and_concluded_from_what_was_measured(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked() == 0
    made = tmp_path / "runs" / "q"
    out = capsys.readouterr().out
    assert out.index("designed: near, far") < out.index("attempt 1") < out.index("attempt 2: measured"), (
        "nothing ran before"
    )
    said = json.loads((made / "answer.json").read_text())
    assert said["conclusion"].startswith("A larger spread raises the distance, to 2.")
    assert "varied: spread = 1 and 3" in said["design"]
    conclusions = [one for one in author.asked if isinstance(one, QuestionConclusionInputs)]
    assert any(
        "9.87 is neither listed in `numbers` nor part of the question" in one for one in conclusions[1].complaints
    )
    assert "distance: far is higher than near" in conclusions[0].compared
    codes = [one for one in author.asked if isinstance(one, QuestionCodeInputs)]
    assert "no_such" in codes[1].failed + codes[1].output and codes[1].written[0].path == "work/spread.py"
    record = json.loads((made / "record.json").read_text())
    assert [one["exit"] for one in record["commands"]] == [1, 0]
    assert [one["path"] for one in record["result_files"]] == ["out/results.json"]
    report = (made / "report.md").read_text()
    assert "distance of far: mean 2." in report and "attempt 1: " in report and "## Design (recorded before" in report
    patch = (made / "change.patch").read_text()
    subprocess.run(["git", "apply", "--check", "-"], input=patch, text=True, cwd=tmp_path / "repo", check=True)
    assert "--- /dev/null" in patch and (made / "reproduce.sh").read_text() == SCRIPT
    assert not [one for one in (tmp_path / "repo").rglob("*") if one.name == "spread.py" and "work" in one.parts]

    before = len(author.asked)
    assert asked() == 0 and len(author.asked) == before, "nothing is asked again"


@pytest.mark.parametrize("where", ["question_code", "question_conclusion"])
def test_cut_off_anywhere_it_goes_on_and_repeats_nothing(author: Author, tmp_path: Path, where: str) -> None:
    author.die = where
    with pytest.raises(KeyboardInterrupt):
        question.answer_question(
            read_question(Path("ask.md")),
            Path("repo"),
            budget_settings(),
            Path("runs/q"),
            listener=lambda event, state: None,
        )
    author.die = ""
    assert asked() == 0
    kinds = [type(one).__name__ for one in author.asked]
    cut = {"question_code": "QuestionCodeInputs", "question_conclusion": "QuestionConclusionInputs"}[where]
    assert {kind: kinds.count(kind) - (kind == cut) for kind in kinds} == {
        "QuestionInputs": 2,
        "QuestionCodeInputs": 2,
        "QuestionConclusionInputs": 2,
    }, "what was in flight alone is asked again"
    record = json.loads((tmp_path / "runs" / "q" / "record.json").read_text())
    assert len(record["commands"]) == 2, "no try ran again"


def budget_settings() -> question.Settings:
    from labwright.agent.settings import compose_settings

    return compose_settings(environment={})


def test_a_protected_file_stays_and_the_repository_as_it_is_comes_first(author: Author, tmp_path: Path) -> None:
    assert asked("ask.toml") == 0
    codes = [one for one in author.asked if isinstance(one, QuestionCodeInputs)]
    assert (
        codes[0].as_it_is.startswith("0.5 over 2 seeds")
        and "lib/draws.py is protected and may not change" in codes[1].complaints
    )
    report = (tmp_path / "runs" / "q" / "report.md").read_text()
    assert "the unmodified repository: measured" in report


def test_results_that_lead_out_of_the_copy_or_never_end_are_none(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"distance": {"near": [1.0]}}')
    for name in ("link", "pipe", "linked"):
        (tmp_path / name).mkdir()
    for name in ("link", "pipe"):
        (tmp_path / name / "out").mkdir()
    (tmp_path / "link" / "out" / "results.json").symlink_to(tmp_path / "secret.json")
    os.mkfifo(tmp_path / "pipe" / "out" / "results.json")
    assert read_script_results(tmp_path / "link") is None and read_script_results(tmp_path / "pipe") is None
    (tmp_path / "linked" / "out").symlink_to(tmp_path / "pipe" / "out")
    assert read_script_results(tmp_path / "linked") is None


def test_without_a_measurement_of_what_is_there_nothing_is_designed(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ask.toml").write_text(TOML.replace("print(0.5)", "print(None)"))
    assert asked("ask.toml") == 2
    assert (
        not author.asked and "scientist: the unmodified repository produced no metric value" in capsys.readouterr().err
    )


def test_a_command_may_name_its_output_folder(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'question = "How far is it?"\nrun = "python t.py --out {out}"\nmeasure = "{out}/m.json:a"\n'
    )
    assert read_question(tmp_path / "a.toml").run == ("python", "t.py", "--out", "out")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("questio = 'a'", "unknown key 'questio'"),
        ("run = 'a b c'", "`question` is missing"),
        ("question = 'a b c'\nrun = 'python a.py'", "must be given together"),
        ("question = 'a b c'\nseeds = 0", "seeds: Input should be greater"),
        ("question = ", "Invalid value"),
        ("question = 'a b c'\nrun = 'a'\nmeasure = 'nonsense'", "--task"),
    ],
)
def test_a_file_that_is_no_question(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UsageError, match="--task") as error:
        read_question(tmp_path / "a.toml")
    assert words in str(error.value)


def test_what_does_not_go_together(author: Author, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --code" in refused(capsys, "run", "--task", "ask.md")
    assert "give an idea with --idea" in refused(capsys, "run")
    assert "--paper requires --code, and `run` and `measure`" in refused(
        capsys, "run", "--code", "repo", "--task", "ask.md", "--paper"
    )
    # with them it is a study, which needs a plan or a model that plans
    assert "--plan" in refused(capsys, "run", "--code", "repo", "--task", "ask.toml", "--paper")
    assert "--plan cannot be combined with --task" in refused(
        capsys, "run", "--code", "repo", "--task", "ask.md", "--plan", "ask.md"
    )
    assert "cannot read --task none.md" in refused(capsys, "run", "--code", "repo", "--task", "none.md")
    Path("short.md").write_text("why?\n")
    assert "fewer than three words" in refused(capsys, "run", "--code", "repo", "--task", "short.md")
