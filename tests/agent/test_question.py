"""`scientist run --code REPO --task FILE`: designed before anything changes, mended, bound to what was measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labwright.agent import repository_setup, run
from labwright.agent.cli import main
from labwright.agent.plan_files import read_question
from labwright.evals.expbench.__main__ import build_work_record
from labwright.models.backend import ModelRequest
from labwright.models.conversation import ToolCall
from labwright.models.replay import ScriptedModel
from labwright.models.roles.node_assessment import CodeReaderInputs, CodeReading
from labwright.models.roles.repository import (
    ConclusionAnswer,
    DesignAnswer,
    ExperimentInputs,
    QuestionConclusionInputs,
    QuestionInputs,
    StatedDirection,
)
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError
from labwright.record.event_log import read_events, read_state
from labwright.record.events.search_events import CellExecuted
from labwright.record.line_store import read_stored_rows
from labwright.record.lock import acquire_lock, describe_process
from labwright.record.schema.idea import DesignedArm, DesignedMetric, ExperimentDesign, ExperimentVariable
from labwright.record.schema.nodes import CodeDoubt
from labwright.record.source_tree import ScriptResults
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository import git_mirror
from labwright.sandbox.repository.command_cells import read_script_results
from labwright.sandbox.repository.environment import build_environment
from labwright.stages import measuring
from tests.agent.test_cli_bad_input import refused
from tests.evals.exp_set import make_repository
from tests.inspector.sample_run import read_status
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
import os
import time
from pathlib import Path
from lib.draws import draws

time.sleep(0.6)  # what is left of the time may not change a question that was answered
first, count = int(os.environ["FIRST_SEED"]), int(os.environ["SEEDS"])
seeds = range(first, first + count)
arms = {name: [sum(draws(seed, spread)) / 40 for seed in seeds] for name, spread in (("near", 1.0), ("far", 3.0))}
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


def write(path: str, text: str) -> ToolCall:
    return ToolCall(tool="write", arguments={"path": path, "text": text})


HAND_IN = ToolCall(tool="hand_in", arguments={"script": SCRIPT, "reasons": "draws with both spreads"})
BROKEN = (write("work/spread.py", "import no_such\n"), HAND_IN, write("work/spread.py", CODE), HAND_IN)
PROTECTED = (write("work/spread.py", CODE), write("lib/draws.py", "x = 1\n"), HAND_IN)
FAR = "validation/repo/distance/far"
HIGHER = {"metric": "distance", "arm": "far", "against": "near", "is": "higher"}


Answer = DesignAnswer | ToolCall | ConclusionAnswer | CodeReading


class Author:
    """Answers as a careful author would who errs once at each step."""

    def __init__(self) -> None:
        self.asked: list[QuestionInputs | QuestionConclusionInputs | ExperimentInputs] = []
        self.results: list[str] = []
        """What tools returned to it."""
        self.die = ""
        self.answers: Callable[[ModelRequest], Answer] = self
        self.read_files: list[list[str]] = []
        """The files that the reader of code saw, at each reading."""
        self.doubted = ""
        """A line of code that the reader of code doubts."""

    def read(self, inputs: CodeReaderInputs) -> CodeReading:
        self.read_files.append([*inputs.files])
        for path, text in inputs.files.items():
            for line in text.splitlines() if self.doubted and self.doubted in text else ():
                if self.doubted in line:
                    number = int(line.split()[0])
                    doubt = CodeDoubt(
                        kind="unfair",
                        file=path,
                        first=number,
                        last=number,
                        quote=self.doubted,
                        what="the arms differ in their draws",
                        honest="draws both alike",
                    )
                    return CodeReading(doubts=(doubt,), verdict="dishonest")
        return CodeReading(verdict="honest")

    def __call__(self, request: ModelRequest) -> Answer:
        inputs = request.inputs
        if isinstance(inputs, CodeReaderInputs):
            return self.read(inputs)
        assert isinstance(inputs, QuestionInputs | QuestionConclusionInputs | ExperimentInputs)
        self.asked.append(inputs)
        if self.die == request.role.name:
            raise KeyboardInterrupt
        if isinstance(inputs, QuestionConclusionInputs):
            factor = "by a factor of 9.87" if not inputs.complaints else f"to {{{FAR}.mean}} with far"
            return ConclusionAnswer(
                conclusion=f"A larger spread raises the distance, {factor}.",
                directions=(StatedDirection.model_validate(HIGHER),),
            )
        if isinstance(inputs, ExperimentInputs):
            assert request.conversation is not None
            self.results = [one.result for one in request.conversation.exchanges]
            calls = PROTECTED if "lib/*" in inputs.frozen else BROKEN
            return calls[min(len(self.results), len(calls) - 1)]
        if inputs.requests_left == 3 and not inputs.requested:
            return DesignAnswer(wants=("lib/draws.py:draws",))
        return DesignAnswer(design=DESIGN)


def prepare(place: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    """Go to a folder with a repository and two questions, and return the author who answers them."""
    monkeypatch.chdir(place)
    make_repository(place / "repo")
    (place / "ask.md").write_text("Does a larger spread raise the distance?\n")
    (place / "ask.toml").write_text(TOML)
    made = Author()

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(lambda request: made.answers(request))

    monkeypatch.setattr(run, "open_backend", opened)
    return made


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    return prepare(tmp_path, monkeypatch)


class Answered(NamedTuple):
    """The question of `ask.toml`, answered once for all tests, which change no file of it."""

    folder: Path
    author: Author


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    place = tmp_path_factory.mktemp("answered")
    with pytest.MonkeyPatch.context() as patch:
        author = prepare(place, patch)
        assert asked("ask.toml") == 0
    return Answered(place / "runs" / "q", author)


def asked(task: str = "ask.md", *more: str) -> int:
    return main(["run", "--code", "repo", "--task", task, "--name", "q", *more])


def commit_link(tmp_path: Path, name: str) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "results.json").write_text("{}")
    (tmp_path / "repo" / name).symlink_to(outside)
    run_git(tmp_path / "repo", "add", "-A")
    run_git(tmp_path / "repo", "commit", "-qm", "links")
    return outside


def test_an_author_cannot_write_through_a_committed_link(author: Author, tmp_path: Path) -> None:
    outside = commit_link(tmp_path, "work")
    assert asked() == 4 and any("work is a symbolic link" in one for one in author.results)
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("results.json", "{}")]


def test_it_is_designed_carried_out_and_concluded_from_what_was_measured(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = commit_link(tmp_path, "out")  # a link at the place of the results is replaced in each copy
    assert asked() == 0
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("results.json", "{}")]
    made = tmp_path / "runs" / "q"
    out = capsys.readouterr().out
    assert out.index("designed: near, far") < out.index("n0005 draft failed") < out.index("n0006 debug ok")
    said = json.loads((made / "answer.json").read_text())
    assert said["conclusion"].startswith("A larger spread raises the distance, to 2.")
    assert "varied: spread = 1 and 3" in said["design"]
    conclusions = [one for one in author.asked if isinstance(one, QuestionConclusionInputs)]
    assert "9.87 is typed, and the question does not have it" in conclusions[1].complaints[0]
    assert "distance: far against near: higher" in conclusions[0].compared
    assert "No module named 'no_such'" in author.results[1]
    report = (made / "report.md").read_text()
    assert f"| mean: distance of far | `{FAR}.mean` |" in report and "## Design (recorded before" in report
    assert "n0005, the experiment, seed 0: " in report and "n0006, the experiment, repaired, seed 0: measured" in report
    patch = (made / "change.patch").read_text()
    subprocess.run(["git", "apply", "--check", "-"], input=patch, text=True, cwd=tmp_path / "repo", check=True)
    assert "--- /dev/null" in patch and (made / "reproduce.sh").read_text() == f"export FIRST_SEED=5 SEEDS=30\n{SCRIPT}"
    assert not [one for one in (tmp_path / "repo").rglob("*") if one.name == "spread.py" and "work" in one.parts]

    log = build_work_record(read_state(made))["log"]  # which EXP-Bench's monitor reads
    assert '"path": "work/spread.py", "text": "import no_such' in log and "No module named 'no_such'" in log

    before = len(author.asked)
    assert asked() == 0 and len(author.asked) == before, "nothing is asked again"


def test_doubted_code_goes_back_to_its_author_and_is_reported_if_it_stays(author: Author, tmp_path: Path) -> None:
    author.doubted = '("far", 3.0)'
    assert asked() == 0
    refused = [one for one in author.results if "two readings of your code call these lines untrue" in one]
    assert refused and "unfair (work/spread.py" in refused[0]
    assert author.read_files[0][:2] == ["work/spread.py", "reproduce.sh"] and "lib/draws.py" in author.read_files[0]
    conclusions = [one for one in author.asked if isinstance(one, QuestionConclusionInputs)]
    assert "the arms differ in their draws" in conclusions[0].doubts[0]
    report = (tmp_path / "runs" / "q" / "report.md").read_text()
    assert "Two readings of the code doubt it: unfair (work/spread.py" in report


def test_a_script_that_ignores_the_first_seed_is_refused(author: Author, tmp_path: Path) -> None:
    plain = CODE.replace('int(os.environ["FIRST_SEED"])', "0")
    calls = (write("work/spread.py", plain), HAND_IN, write("work/spread.py", CODE), HAND_IN)

    def forget_first_seed(request: ModelRequest) -> Answer:
        if not isinstance(request.inputs, ExperimentInputs):
            return author(request)
        assert request.conversation is not None
        author.results = [one.result for one in request.conversation.exchanges]
        return calls[min(len(author.results), len(calls) - 1)]

    author.answers = forget_first_seed
    assert asked() == 0
    assert any("the script gives the values of FIRST_SEED=0" in one for one in author.results)
    report = (tmp_path / "runs" / "q" / "report.md").read_text()
    assert "The values are those of 30 fresh seeds" in report and "the experiment on fresh seeds" in report


def test_of_two_identical_commands_one_starts_and_a_killed_start_is_started_again(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = tmp_path / "runs" / "q", list[str]()
    folder.mkdir(parents=True)
    with acquire_lock(folder):
        assert asked() == 2
    assert "in use by process" in capsys.readouterr().err and not author.asked
    (folder / "code" / "mirror").mkdir(parents=True)  # left by a process that was killed while it copied
    (folder / "lock").write_text(describe_process().model_dump_json())

    def count(*given: Any, **more: Any) -> Any:
        opened.append("environment")
        return build_environment(*given, **more)

    monkeypatch.setattr(repository_setup, "build_environment", count)
    assert asked() == 0 and len(opened) == 1


def test_what_fails_on_a_full_disk_is_no_failure_of_the_experiment(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(_: Path) -> bool:
        return True

    with monkeypatch.context() as full:
        full.setattr(measuring, "is_disk_full", is_full)
        assert asked() == 1
    assert "free disk space, then resume; n0005/1 is repeated" in capsys.readouterr().err
    assert not read_state(tmp_path / "runs" / "q").cells
    assert asked() == 0 and len(read_state(tmp_path / "runs" / "q").cells) == 3
    monkeypatch.setattr(git_mirror, "is_disk_full", is_full)
    with pytest.raises(OSError, match="No space left"):
        git_mirror.run_git(tmp_path, ["checkout-index", "--nonsense"])


def test_code_that_a_power_failure_emptied_is_not_run(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    author.die = "question_conclusion"
    assert asked() == 130
    run = tmp_path / "runs" / "q"
    log, emptied = run / "events.jsonl", run / "nodes" / "n0005" / "source" / "arms" / "experiment.json"
    rows = list(read_stored_rows(log))
    os.truncate(log, next(row.offset for row in rows if '"cells_owed"' in row.body and "n0005" in row.body))
    whole = emptied.read_text()
    emptied.write_text("")
    assert asked() == 1
    assert "n0005/source differs from the recorded code: restore it" in capsys.readouterr().err
    author.die = ""
    emptied.write_text(whole)
    assert asked() == 0


def test_a_protected_file_stays_and_the_repository_as_it_is_comes_first(answered: Answered) -> None:
    author = answered.author
    [told] = {one.known[0].text for one in author.asked if isinstance(one, ExperimentInputs)}
    assert "The unmodified repository gave 0.5 over 2 seeds" in told
    assert "lib/draws.py is frozen (lib/*) and may not change" in author.results[1]
    report = (answered.folder / "report.md").read_text()
    assert "the unmodified repository, seed 1: measured" in report


def test_results_that_lead_out_of_the_copy_or_never_end_are_none(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"distance": {"near": [1.0]}}')
    for name in ("link", "pipe", "linked"):
        (tmp_path / name).mkdir()
    for name in ("link", "pipe"):
        (tmp_path / name / "out").mkdir()
    (tmp_path / "link" / "out" / "results.json").symlink_to(tmp_path / "secret.json")
    os.mkfifo(tmp_path / "pipe" / "out" / "results.json")
    (tmp_path / "linked" / "out").symlink_to(tmp_path / "pipe" / "out")
    for name in ("link", "pipe", "linked"):
        with pytest.raises(RepositoryError, match=r"left no out/results\.json"):
            read_script_results(tmp_path / name, WANTED, "repo")


WANTED = ScriptResults(file="out/results.json", metrics=("d",), arms=("near",), seeds=2)


def test_without_a_measurement_of_what_is_there_nothing_is_designed(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ask.toml").write_text(TOML.replace("print(0.5)", "print(None)"))
    assert asked("ask.toml") == 2
    assert not author.asked and "the unmodified repository produced no metric value" in capsys.readouterr().out


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
    assert "--plan cannot be combined with --task" in refused(
        capsys, "run", "--code", "repo", "--task", "ask.md", "--plan", "ask.md"
    )
    assert "cannot read --task none.md" in refused(capsys, "run", "--code", "repo", "--task", "none.md")
    Path("short.md").write_text("why?\n")
    assert "fewer than three words" in refused(capsys, "run", "--code", "repo", "--task", "short.md")


def test_it_is_a_run_for_every_command(
    answered: Answered, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(answered.folder, tmp_path / "runs" / "q")
    for words in (["status"], ["tree"], ["logs"], ["audit"], ["resume"]):
        assert main([*words, str(folder)]) == 0, words
    shown = capsys.readouterr().out
    assert "question    Does a larger spread raise the distance?" in shown
    assert "distance: far - near: +" in shown and ": higher" in shown and "clean: 0 unbound" in shown
    assert "tuning" not in shown.partition("unfinished")[0], "stages that the study does not have"
    said = json.loads((folder / "answer.json").read_text())["conclusion"]
    number = said.partition("to ")[2].split()[0]
    assert main(["trace", str(folder), number]) == 0
    traced = capsys.readouterr().out
    assert f"{FAR}: mean, printed {number}, logged" in traced and "report.md:" in traced and "cells/" in traced
    assert "change.patch && bash" in traced
    assert main(["export", str(folder), "--html", "q.html", "--zip", "q.zip"]) == 0
    page = Path("q.html").read_text()
    assert "Findings" in page and "distance: far - near" in page and "<h2>Paper" not in page and ">Paper<" not in page
    assert main(["trace", "q.zip", number]) == 0 and main(["audit", "q.zip"]) == 0
    assert main(["write", str(folder)]) == 2 and "has no paper" in capsys.readouterr().err
    damaged = [next(folder.glob(one)) for one in ("cells/*/artifacts/*", "prompts/*", "nodes/*/source/arms/exp*")]
    for path in (*damaged, *(folder / "code/mirror/objects").glob("??/*")):  # as after a power failure
        path.chmod(0o600)
        path.write_bytes(b"")
    assert main(["audit", str(folder)]) == 5
    found = capsys.readouterr().out
    assert "code/mirror" in found and "it cannot be built from the damaged files" in found
    assert all(str(path.relative_to(folder)).removesuffix("/arms/experiment.json") in found for path in damaged)


def test_a_limit_ends_it_and_a_higher_one_lets_it_go_on(
    author: Author, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("ask.toml", "--budget-tokens", "9000") == 3
    folder = tmp_path / "runs" / "q"
    report = (folder / "report.md").read_text()
    assert "None: " in report and "tokens" in report
    before = len(read_state(folder).cells)
    assert main(["resume", str(folder), "--set", "budget.tokens=900000"]) == 0
    assert json.loads((folder / "answer.json").read_text())["conclusion"]
    events = read_events(folder / "events.jsonl")
    runs = [event.run.key for event, _ in events if isinstance(event, CellExecuted)]
    assert len(runs) == len({*runs}) > before, "no cell is run again"
    assert read_status("q", events, None, now=0.0).condition == "done"


@pytest.mark.usefixtures("author")
def test_killed_at_any_time_it_goes_on_and_answers_the_same(answered: Answered, tmp_path: Path) -> None:
    folder = answered.folder
    assert main(["export", str(folder), "--exchange", "answers.json"]) == 0
    words = ["run", "--code", "repo", "--task", "ask.toml", "--name", "killed", "--model", "replay:answers.json"]
    command, kills = [sys.executable, "-m", "labwright", *words], 0
    for wait in (2.5, 4.5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    killed = tmp_path / "runs" / "killed"
    assert kills and ended.returncode == 0, ended.stdout + ended.stderr
    assert (killed / "answer.json").read_text() == (folder / "answer.json").read_text()
    runs = [one.run.key for one, _ in read_events(killed / "events.jsonl") if isinstance(one, CellExecuted)]
    assert len(runs) == len({*runs}) == 4 and main(["audit", str(killed)]) == 0
