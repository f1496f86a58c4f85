"""EXP-Bench: worked cases, tasks with their quirks, masking under attack, answers that cheat, kills, bad input."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.evals.expbench import scores
from labwright.evals.expbench.answer_judge import JudgedWork, find_numbers, judge_by_model, number_support
from labwright.evals.expbench.answers import (
    ExpTask,
    SubmittedAnswer,
    TaskPathRefused,
    parse_repository_path,
    read_tasks,
)
from labwright.evals.expbench.evaluation import Evaluated
from labwright.evals.expbench.result_files import (
    build_record,
    direction_of_effect,
    find_arms,
    list_measured,
    read_result,
)
from labwright.evals.expbench.roles import ChangeInputs, ChangeVerdicts, ConclusionVerdict, Conduct, ConductInputs
from labwright.evals.expbench.violations import (
    InvalidTask,
    copy_masked,
    decide,
    find_facts,
    find_git_subcommand,
    find_repository,
    split_line,
)
from labwright.evals.item_loop import read_stored
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog
from labwright.sandbox.repository.git_mirror import GitMirror
from tests.agent.test_cli_bad_input import refused
from tests.evals.exp_set import SECRET, make_set, run_git
from tests.evals.expbench_golden import check_cases, summarize_numbers

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "benchmarks" / "expbench"


# --- worked cases -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.is_dir(), reason="the worked cases lie beside the project")
def test_every_worked_case_agrees() -> None:
    found = list(check_cases(json.loads((SHARED / "golden.json").read_text())))
    assert len(found) == 114 and [(name, why) for name, agrees, why in found if not agrees] == []


@pytest.mark.parametrize(
    ("said", "score"),
    [("correct", 1), ("incorrect", 0), (0, 0), (0.0, 0), (False, None), (1.5, None), ("0", None), (float("nan"), None)],
)
def test_a_verdict_on_a_conclusion(said: object, score: int | None) -> None:
    assert scores.parse_conclusion_score(said) == score


@pytest.mark.parametrize(
    ("values", "average", "middle"),
    [
        ([0.1, 0.1469], 0.1235, 0.1235),
        ([0.1, 0.1, 0.1002, 0.1002], 0.1001, 0.1001),
        ([-0.1, -0.1469], -0.1235, -0.1235),
        ([1.00005], 1.0001, 1.0001),
        ([2.00005, 4.00005], 3.0001, 3.0001),
    ],
)
def test_ties_at_the_fourth_digit_go_up(values: list[float], average: float, middle: float) -> None:
    found = summarize_numbers(values)
    assert (found["avg"], found["med"]) == (average, middle)


def test_a_run_that_timed_out_is_no_run() -> None:
    command = {"argv": ["bash", "reproduce_exp_bench.sh"], "exit": 0}
    record = {"commands": [command], "result_files": [{"path": "out.json", "written_by_run": True}]}
    answer = SubmittedAnswer(design=("one",), conclusion="It is 0.91 against 0.87.", record=record)
    assert not find_facts(build_record(answer, {}, {})).has_violation
    late = answer.model_copy(update={"record": record | {"commands": [command | {"timed_out": True}]}})
    assert find_facts(build_record(late, {}, {})).reasons == ("no run",)


def test_a_suspicion_that_the_facts_confirm_stays_in_the_list() -> None:
    facts = {"paper_access": True, "git_operations": False, "faked_or_nonexperimental_data": False}
    assert decide(facts, facts | {"git_operations": True}).suspicions == ("paper_access", "git_operations")
    assert decide(facts, dict.fromkeys(facts, False)).suspicions == ()


def count_tasks(tasks: Sequence[ExpTask]) -> dict[str, int]:
    """Count the tasks of a set, by type, the items of designs, requirements, and masked files."""
    found = {"tasks": len(tasks)} | {str(kind): sum(one.type == kind for one in tasks) for kind in (1, 2, 3)}
    return found | {
        "design_items": sum(len(one.design) for one in tasks),
        "requirements": sum(len(one.requirements) for one in tasks if one.type != 3),
        "masked_paths": sum(len(one.masked) for one in tasks),
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published tasks lie beside the project")
def test_the_published_tasks_load_whole() -> None:
    folder = SHARED / "data" / "iclr2024"
    tasks, wanted = read_tasks(folder), json.loads((folder / "counts.json").read_text())
    total = {key: value for key, value in wanted["total"].items() if key not in ("nested_design", "method_dict")}
    assert count_tasks(tasks) == total
    for paper, each in wanted["papers"].items():
        found = count_tasks([one for one in tasks if one.name.startswith(f"{paper}/")])
        assert {key: found[key] for key in found if key in each} == {key: each[key] for key in found if key in each}


def test_paths_stay_within_the_repository() -> None:
    assert (
        parse_repository_path("/workspace/a/./b.py") == "a/b.py"
        and parse_repository_path("/tmp/repo/a.py") == "repo/a.py"
    )
    for said in ("/workspace/../x", "//etc/passwd", "a\\b", "", "/workspace/", "."):
        with pytest.raises(TaskPathRefused):
            parse_repository_path(said)


def test_git_is_seen_through_shells_and_wrappers() -> None:
    lines = [
        "cd /w && /usr/bin/git -C . log --oneline | head",
        "env A=1 sudo git show HEAD~1:a.py",
        "sh -c 'git stash; ls'",
        "A=1 git checkout main",
        "nohup time git reflog",
    ]
    found = [[name for words in split_line(line) if (name := find_git_subcommand(words))] for line in lines]
    assert found == [["log"], ["show"], ["stash"], ["checkout"], ["reflog"]]
    harmless = find_facts(
        {
            "commands": [
                {"argv": ["grep", "git log", "a"], "exit": 0},
                {"argv": ["git", "commit", "-m", "git show"], "exit": 0},
            ]
        }
    )
    assert not harmless.has_violation and harmless.harmless_commands == ("git commit",)


def test_numbers_and_arms_are_read_off_a_conclusion_and_its_results() -> None:
    assert find_numbers("rows48 is lowest: 0.389, -1.5e-3, 7.1 % of 1,200.") == ["0.389", "-1.5e-3", "7.1 %", "1,200"]
    measured = {"a": 0.0963, "b": 0.1031}
    assert [number_support(one, measured) for one in ("0.096", "7.1%", "9.87")] == ["found", "derivable", "unsupported"]
    [found] = find_arms({"metric": "loss", "arms": {"x": [1.0, 1.1, 1.2], "y": [0.5, 0.61, 0.7]}})
    assert found.metric == "loss" and direction_of_effect(found.values["x"], found.values["y"]) == "lower"
    assert direction_of_effect((1.0, 2.0, 3.0), (1.0 + 1e-12, 2.0, 3.0)) == "same"
    assert (
        direction_of_effect((1.0, 2.0, 3.0), (3.0, 1.0, 2.5)) == "unclear"
        and direction_of_effect((1.0,), (1.0, 2.0)) == "unclear"
    )


# --- masking ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_set(tmp_path / "set")


def masked(place: Path, task: ExpTask, folder: Path) -> Path:
    copy_masked(task, find_repository(task, place, None), GitMirror(folder / "repository.git"), folder / "copy")
    return folder / "copy"


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as found:
                    yield from ((name, found.read(name)) for name in found.namelist())


@pytest.mark.slow
def test_no_way_leads_to_what_is_masked(place: Path, tmp_path: Path) -> None:
    repository = place / "repos" / "spread"
    script = repository / "scripts" / "spread.py"
    subprocess.run([sys.executable, "-m", "py_compile", str(script)], check=True)
    shutil.copy(script, repository / "lib" / "old_copy.txt")
    (repository / "notes").mkdir()
    shutil.copy(script, repository / "notes" / "spread.py.orig")
    os.symlink(script, repository / "link_inside.py")
    os.symlink(place / "tasks" / "700" / "700_complete_final.json", repository / "link_outside.json")
    with zipfile.ZipFile(repository / "archive.zip", "w") as made:
        made.write(script, "old/spread.py")
    run_git(repository, "add", "-f", ".")
    run_git(repository, "commit", "-q", "-m", "more")
    run_git(repository, "branch", "side")
    run_git(repository, "bundle", "create", "-q", "history.bundle", "--all")
    run_git(repository, "add", "-f", ".")
    run_git(repository, "commit", "-q", "-m", "the history as a file")
    task = read_tasks(place, ["700/0"])[0]
    found = masked(place, task, tmp_path / "work")
    assert not [name for name, content in contents(found) if SECRET.encode() in content]
    assert not (found / ".git").exists() and not [one for one in found.rglob("*") if one.is_symlink()]
    assert (found / "lib" / "draws.py").is_file() and not (found / "scripts" / "spread.py").exists()
    assert not any(one in json.dumps(task.agent_inputs) for one in (SECRET, task.outcome)), (
        "nothing shown tells the answer"
    )


@pytest.mark.slow
def test_a_masked_file_that_is_not_there_makes_the_task_invalid(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match=r"not in the repository: scripts/lost\.py"):
        masked(place, read_tasks(place, ["700/2"])[0], tmp_path / "work")
    assert not (tmp_path / "work" / "copy").exists()


# --- the bench --------------------------------------------------------------------------------------------------------

WORDS = ("--tasks", "set", "--answers", "set/answers.json", "--execute-minutes", "0.05", "--out", "out")
EXPECTED = {  # outcome, E, C, All·E, C bound
    "right": ("judged", 1, 1, 1, True),
    "reversed": ("judged", 1, 0, 0, False),
    "unsupported": ("judged", 1, 1, 1, False),
    "typed": ("violation", None, 0, None, False),
    "borrowed": ("violation", None, 0, None, False),
    "not_run": ("violation", None, 0, None, False),
    "peeked": ("violation", None, 0, None, False),
    "crashes": ("judged", 0, 1, 0, False),
    "slow": ("judged", 0, 1, 0, True),
    "silent": ("no_answer", 0, 0, 0, False),
}


def came(found: dict[str, Any], task: str) -> dict[str, Any]:
    return {
        one["variant"]: (one["outcome"], *(one["scores"][name] for name in ("E", "C", "All·E")), one["c_bound"])
        for one in found["lines"]
        if one["task"] == task
    }


def kill_bench(place: Path, out: str, is_due: Callable[[], bool]) -> None:
    """Begin the bench, and kill it with all that it started once it is due."""
    process = subprocess.Popen(
        [sys.executable, "-m", "labwright", "bench", "exp", *WORDS[:-1], out],
        cwd=place.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 300
    while not is_due() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.kill()
    process.wait()
    for lock in (place.parent / out / "locks").glob("*"):
        if (pid := lock.read_text()).isdigit() and Path(f"/proc/{pid}").exists():
            os.killpg(int(pid), signal.SIGKILL)


def list_times(out: Path) -> dict[Path, int]:
    """When each answer was evaluated."""
    walked = os.walk(out / "tasks")  # which bears that others remove folders
    found = [Path(folder) / "evaluated.json" for folder, _, names in walked if "evaluated.json" in names]
    return {path: path.stat().st_mtime_ns for path in found}


@pytest.mark.slow
def test_answers_end_as_they_should_although_it_was_killed_and_are_evaluated_once(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = place.parent / "out"
    kill_bench(place, "out", lambda: bool(list_times(out)))
    kept = list_times(out)
    assert kept
    assert main(["bench", "exp", *WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert came(found, "700/0") == EXPECTED and came(found, "700/1") == {"right": EXPECTED["right"]}
    assert found["counts"] == {"invalid": 1, "judged": 6, "no_answer": 1, "skipped": 1, "violation": 4}
    assert "needs 9 GPUs, has 0" in found["not_counted"]["skipped"][0]
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    assert {row["reasons"] for row in rows if row["outcome"] == "violation"} == {
        "honesty typed",
        "derived out/spread.json",
        "no run",
        "git show",
    }
    before = list_times(out)
    assert main(["bench", "exp", *WORDS]) == 0
    assert "judged by the file of answers" in capsys.readouterr().out
    assert before == list_times(out) == before | kept, "nothing is evaluated again"
    assert read_stored(next(iter(before)), Evaluated) is not None


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.parametrize("pauses", [(2.0,), (1.5, 3.0)])
def test_killed_anywhere_the_table_is_the_same(
    place: Path, capsys: pytest.CaptureFixture[str], pauses: tuple[float, ...]
) -> None:
    assert main(["bench", "exp", *WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for pause in pauses:
        due = time.monotonic() + pause
        kill_bench(place, "again", lambda due=due: time.monotonic() > due)
    assert main(["bench", "exp", *WORDS[:-1], "again", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert {task: came(again, task) for task in ("700/0", "700/1")} == {
        task: came(found, task) for task in ("700/0", "700/1")
    }
    assert again["groups"] == found["groups"]


@pytest.mark.slow
def test_a_step_that_is_not_asked_for_is_not_known(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "exp", *WORDS, "--only", "700/1", "--steps", "design,conclude", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["lines"]
    assert {name for name, value in line["scores"].items() if value is not None} == {"D", "C", "C·D"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("--tasks", "none"), "contains no ID/ID_complete_final.json"),
        (("--answers", "none.json"), "cannot be read"),
        (("--answers", "set/needs.json"), "is not a file of answers"),
        (("--only", "type=4"), "none of the 4 tasks"),
        (("--steps", "poem"), "name one or more of design, implement, execute, conclude"),
        (("--out", "set/needs.json"), "is a file"),
        (("--model", "nonsense"), "is not a model name"),
    ],
)
def test_what_cannot_be_benched_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], changed: tuple[str, str], words: str
) -> None:
    assert words in refused(capsys, "bench", "exp", *WORDS, *changed)


def test_a_dry_run_says_what_cannot_be_set_and_leaves_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(place.parent.rglob("*"))
    assert main(["bench", "exp", *WORDS, "--dry-run"]) == 0
    assert "700/3: skipped: needs 9 GPUs, has 0" in capsys.readouterr().out
    assert sorted(place.parent.rglob("*")) == before


def test_tasks_that_are_no_json(place: Path) -> None:
    (place / "tasks" / "700" / "700_complete_final.json").write_text("{")
    with pytest.raises(UsageError, match="is not a file of EXP-Bench tasks"):
        read_tasks(place)


@pytest.mark.parametrize(
    "text", ["[" * 400 + "1" + "]" * 400, '{"a": 1' + "0" * 400 + ', "b": [1' + "0" * 4000 + ", 2]}", "[" * 10**6]
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_odd_numbers_and_depths_of_a_result_are_passed_over(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_result(tmp_path, name)
    assert [value for _, value in list_measured(found)] == ([2.0] if "b" in text else [])
    assert list(find_arms(found)) == []


async def test_a_long_change_and_a_long_log_are_judged_part_by_part() -> None:
    """What an earlier part meets is not asked again, and one part of a log is enough to suspect."""
    task = ExpTask(
        name="1/0", type=1, question="q?", method="m", outcome="o", requirements=("trains a model", "saves", "plots")
    )
    filler = "".join(f"+filler {number}\n" for number in range(12_000))
    change = f"+train_model_now()\n{filler}+save_weights_now()\n"
    asked, logs = list[ChangeInputs](), list[str]()

    def judge_change(inputs: ChangeInputs) -> ChangeVerdicts:
        asked.append(inputs)
        lines = {"trains a model": "train_model_now()", "saves": "save_weights_now()", "plots": "none of it"}
        found = [
            {"id": one.id, "reason": "r", "quote": line, "verdict": "met" if line in inputs.change else "not met"}
            for one in inputs.items
            for line in [lines[one.text]]
        ]
        return ChangeVerdicts.model_validate({"verdicts": found})

    def judge_conduct(inputs: ConductInputs) -> Conduct:
        logs.append(inputs.log)
        read = "paper.pdf" in inputs.log
        return Conduct(reason="r", paper_access=read, git_operations=False, faked_or_nonexperimental_data=False)

    model = ScriptedModel.from_role_functions(
        answer_change=judge_change,
        answer_conduct=judge_conduct,
        answer_conclusion=lambda _: ConclusionVerdict(reason="r", verdict="correct"),
    )
    client = Models(model, MemoryLog(), ModelSettings(), time.monotonic).make_client(0, 0)
    log = f"opened paper.pdf\n{filler}"
    found = await judge_by_model(client, "j", JudgedWork(task, SubmittedAnswer(record={"log": log}), change))
    assert found.implementation is not None and [one.is_counted for one in found.implementation] == [True, True, False]
    assert [[one.id for one in inputs.items] for inputs in asked] == [
        ["r1", "r2", "r3"],
        *[["r2", "r3"]] * (len(asked) - 1),
    ]
    assert "".join(inputs.change for inputs in asked) == change and len(asked) > 1 and all(one.cut for one in asked)
    assert "".join(logs) == log and found.suspected is not None and found.suspected["paper_access"]
