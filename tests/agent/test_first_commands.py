"""Commands of the first day: an idea file is written and checked; own data are described; runs are listed; efforts."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.agent.doctor import Verdict, machine
from labwright.agent.settings import EFFORTS, Settings, compose_settings
from labwright.inspector.status import RunStatus, build_status
from labwright.inspector.summary import format_ending
from labwright.record.event_log import read_state
from labwright.sandbox.isolation.interpreter import InterpreterInfo
from tests.inspector.sample_run import make_ended, make_sample
from tests.inspector.test_logs import written


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- ideas ----------------------------------------------------------------------------------------------------------


def test_the_written_idea_passes_its_check_and_is_not_overwritten(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 0
    before = (place / "idea.json").read_text()
    assert main(["idea", "check", "idea.json"]) == 0
    assert capsys.readouterr().out.endswith("no faults found\n")
    (place / "idea.json").write_text(before + "\n")
    assert main(["init"]) == 2
    assert "idea.json already exists" in capsys.readouterr().err
    assert (place / "idea.json").read_text() == before + "\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Hypothesis": "calm"}, "the field 'Hypothesis' is unknown: did you mean 'Short Hypothesis'?"),
        ({"Metric": "accurcy"}, "Metric 'accurcy' names none of accuracy, macro_f1"),
        ({"Metric": "accurcy"}, "(did you mean 'accuracy'?)"),
        ({"Datasets": ["wnie"]}, "dataset 'wnie' is none of digits, breast_cancer, wine, iris, diabetes"),
        ({"Datasets": ["wnie"]}, "(did you mean 'wine'?)"),
        ({"Datasets": ["crops=crops.csv,target=crop"]}, "crops.csv does not exist"),
        ({"Datasets": ["crops=there.csv,target=crp"]}, "no column 'crp'; did you mean 'crop'?"),
    ],
)
def test_a_typo_in_an_idea_is_named(
    place: Path, change: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "there.csv").write_text("rain,crop\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(60)))
    idea = {"Name": "calm", "Title": "Calm networks", "Experiments": ["one"]}
    (place / "idea.json").write_text(json.dumps(idea | change))
    assert main(["idea", "check", "idea.json"]) == 5
    assert words in capsys.readouterr().out


# --- own data -------------------------------------------------------------------------------------------------------


def test_how_each_column_is_read_is_described(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"{row},2024-01-{1 + row % 28:02d},{'' if row % 9 == 0 else row / 7},x,{'ab'[row % 2]}" for row in range(90)
    ]
    (place / "sales.csv").write_text("\n".join(("id,day,price,note,bought", *rows)) + "\n")
    data = "sales=sales.csv,target=bought,time=day,drop=id,drop=note"
    assert main(["exec", "--describe", "--data", data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sales"]
    assert [(one["column"], one["role"], one["kind"], one["missing"]) for one in found["read"]] == [
        ("id", "dropped", "numbers", 0),
        ("day", "time", "dates", 0),
        ("price", "feature", "numbers", 10),
        ("note", "dropped", "categories", 0),
        ("bought", "target", "classes", 0),
    ]
    assert found["rows"] == sum(found["sizes"].values()) == 90
    assert main(["exec", "--describe", "--data", data]) == 0
    shown = capsys.readouterr().out
    assert "2024-01-01 to 2024-01-28" in shown and "90 of 90 rows used, 2 features" in shown and "2: a, b" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--describe"], "--describe needs data"), ([], "give a Python file"), (["a.py", "--describe"], "runs no file")],
)
def test_exec_without_file_or_data_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exec", *arguments]) == 2
    assert words in capsys.readouterr().err


# --- runs -----------------------------------------------------------------------------------------------------------


def read_written_status(folder: Path) -> RunStatus:
    return build_status(str(folder), read_state(folder), (), None, now=0.0, folder=folder)


def test_runs_are_listed_newest_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 2
    assert "runs is not a folder" in capsys.readouterr().err
    written(place / "runs" / "open", make_sample())
    written(place / "runs" / "ended", make_ended())
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(one["run"], one["kind"], one["condition"]) for one in rows] == [
        ("ended", "paper", "done"),
        ("open", "paper", "interrupted"),
    ]
    assert all(one["hours"] > 0 and one["age"] > 0 for one in rows)
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "kind", "condition", "verdicts", "hours", "cost", "age"] and len(lines) == 3


@pytest.mark.parametrize(
    ("code", "paper", "step"),
    [(0, "ended/paper/paper.pdf", "scientist trace"), (4, "a DRAFT", "scientist write"), (130, "", "scientist resume")],
)
def test_the_end_of_a_run_is_five_lines_with_the_next_step(tmp_path: Path, code: int, paper: str, step: str) -> None:
    lines = [
        line.plain for line in format_ending(read_written_status(written(tmp_path / "ended", make_ended(code))), ())
    ]
    assert [line.split()[0] for line in lines] == ["verdicts", "paper", "page", "cost", "next"]
    assert paper in lines[1] and step in lines[4]


# --- efforts --------------------------------------------------------------------------------------------------------


def test_an_effort_sets_defaults_and_what_is_set_wins(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("search: {num_drafts: 7}\n")
    found = compose_settings(config=config, flags={"effort": "quick", "time_limit": "3h"}, environment={})
    assert (found.effort, found.time_limit, found.search.num_drafts) == ("quick", 3 * 3600.0, 7)
    assert found.search.preliminary.nodes == EFFORTS["quick"]["search.preliminary.nodes"]
    assert compose_settings(flags={"effort": "standard"}, environment={}) == Settings()


# --- doctor --fix ---------------------------------------------------------------------------------------------------


def test_torch_is_installed_only_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    class FakeUv:
        def run(self, *arguments: str) -> str:
            asked.append(arguments)
            return ""

    @contextmanager
    def open_fake(python: str) -> Generator[FakeUv]:
        yield FakeUv()

    def answer_with(packages: dict[str, str]) -> None:
        def inspect(python: str) -> InterpreterInfo:
            return InterpreterInfo("3.11.2", "Linux", (), packages)

        inspect.cache_clear = lambda: None  # pyrefly: ignore
        monkeypatch.setattr(machine, "inspect_interpreter", inspect)

    monkeypatch.setattr(machine, "open_uv", open_fake)
    answer_with({"torch": "2.14.1+cu130"})
    assert machine.install_torch("python") == "" and asked == []
    answer_with({"numpy": "2.4.6"})
    wanted = machine.find_torch_requirement()
    assert wanted.startswith("torch==") and machine.install_torch("python") == f"{wanted} installed for python"
    assert asked == [("pip install --compile-bytecode", wanted)]


def leave_alone(python: str) -> str:
    return ""


def check_nothing(*_: object) -> Iterator[tuple[str, Verdict]]:
    yield from ()


def test_what_is_fixed_is_printed_before_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr("labwright.agent.cli.doctor.print_to_stderr", said.append)
    monkeypatch.setattr(machine, "install_debian_packages", lambda: "Missing: latexmk. To install them: sudo apt-get")
    monkeypatch.setattr(machine, "install_torch", leave_alone)
    monkeypatch.setattr("labwright.agent.cli.doctor.check_machine", check_nothing)
    assert main(["doctor", "--fix"]) == 0
    assert said == ["Missing: latexmk. To install them: sudo apt-get"]
