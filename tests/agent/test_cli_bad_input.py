"""Bad input of every kind: one line that says what and how to mend it, exit 2, no traceback, nothing created."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.agent.cli.preflight import check_local_servers
from labwright.models.settings import Alternative, ModelSettings
from labwright.record.errors import UsageError
from tests.recorded_run import recorded_run

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

IDEA: dict[str, Any] = {"Name": "calm", "Title": "Calm networks", "Experiments": ["train one"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "idea.json").write_text(json.dumps(IDEA))
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that was said, after the checks that hold for every bad input."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    code = main(list(arguments))
    out, err = capsys.readouterr()
    after = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert code == 2, err
    assert out == ""
    assert err.startswith("scientist: ") and err.count("\n") == 1, err
    assert "Traceback" not in err
    assert after == before, "something was created"
    return err


def idea_said(capsys: pytest.CaptureFixture[str], content: object, *more: str) -> str:
    Path("bad.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return refused(capsys, "run", "--idea", "bad.json", *more)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in IDEA.items() if name != key}


# --- the idea -------------------------------------------------------------------------------------------------------


def test_an_idea_that_is_not_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read the idea file none.json: No such file" in refused(capsys, "run", "--idea", "none.json")


ANCHOR = {"Baseline": "ridge", "Dataset": "wine", "Metric": "accuracy", "Value": 0.97, "Tolerance": 0.02, "Source": "s"}


@pytest.mark.parametrize("command", ["run --idea idea.json", "ideate --topic topic.md"])
def test_a_request_that_the_model_refuses_names_no_folder(
    place: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "topic.md").write_text("Calm networks that train fast\n")
    assert main([*command.split(), "--model", "offline"]) == 2
    said = capsys.readouterr()
    assert "offline model" in said.err and "runs/" not in said.out and not (place / "runs").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{'Name': 1}", "is not valid UTF-8 JSON: Expecting property name"),
        ("", "is not valid UTF-8 JSON"),
        ("[" * 100_000, "is not valid UTF-8 JSON"),
        ([], "is an empty list"),
        ("7", "an idea must be a JSON object with Name, Title and Experiments"),
        (["text"], "an idea must be a JSON object"),
        (without("Title"), "Title: Field required"),
        ({**IDEA, "Title": "  "}, "Title: Field required"),
        ({**IDEA, "Title": None}, "Title: Field required"),
        (without("Name"), "Name: Field required"),
        (
            {**without("Name"), "Naem": "calm"},
            "Name: Field required; if the unknown field 'Naem' is meant, rename it to 'Name'\n",
        ),
        (without("Experiments"), "Experiments: Field required"),
        ({"Name": "calm"}, ": Title, Experiments: Field required\n"),
        ({**IDEA, "Experiments": []}, "Experiments: Tuple should have at least 1 item"),
        ({**IDEA, "Experiments": [" "]}, "Experiments: Tuple should have at least 1 item"),
        ({**IDEA, "Experiments": {}}, "Experiments: Tuple should have at least 1 item"),
        ({**IDEA, "Experiments": 5}, "Experiments: must be text or a list of strings"),
        ({**IDEA, "Experiments": ["one", 2]}, "Experiments: must be text or a list of strings"),
        ({**IDEA, "Experiments": ["one", None]}, "Experiments: must be text or a list of strings"),
        ({**IDEA, "Title": ["x"]}, "Title: Input should be a valid string"),
        ({**IDEA, "Datasets": True}, "Datasets: must be text or a list of strings"),
        ({**IDEA, "Abstract": {"a": 1}}, "Abstract: Input should be a valid string"),
        ({**IDEA, "Anchors": "0.97"}, "Anchors: Input should be a valid tuple"),
        ({**IDEA, "Anchors": [0.97]}, "Anchors 1: must be an object with Baseline, Dataset, Metric, Value, Tolerance"),
        ({**IDEA, "Anchors": [{**ANCHOR, "Tolerance": 0}]}, "Anchors 1 Tolerance: Input should be greater than 0"),
        ({**IDEA, "Anchors": [ANCHOR, {**ANCHOR, "Of": 3}]}, "Anchors 2 Of: Extra inputs are not permitted"),
    ],
)
def test_an_idea_that_cannot_be_used(
    place: Path, capsys: pytest.CaptureFixture[str], content: object, words: str
) -> None:
    assert words in idea_said(capsys, content)


def test_several_ideas_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = [IDEA, {**IDEA, "Name": "bold\x1b[31m\n"}]
    assert "choose one with --idea-idx (0: calm, 1: bold )" in idea_said(capsys, two)
    assert "--idea-idx 2 is not in bad.json, which has 2" in idea_said(capsys, two, "--idea-idx", "2")
    assert "--idea-idx -1" in idea_said(capsys, two, "--idea-idx", "-1")
    assert "idea 1: Title: Field required" in idea_said(capsys, [IDEA, without("Title")], "--idea-idx", "1")


# --- settings, model, library ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "search.num_wokers=3"], "did you mean 'search.num_workers'?"),
        (["--set", "nonsense"], "is not KEY=VALUE"),
        (["--workers", "0"], "'search.num_workers' (on the command line) should be greater than or equal to 1, not 0"),
        (["--workers", "many"], "see: scientist run --help"),
        (["--workers"], "'--workers' requires an argument (see: scientist run --help)"),
        (
            ["--model", "openai-chat:m", "--base-url", "http://127.0.0.1:9/v1"],
            "openai-chat:m: nothing listens at http://127.0.0.1:9/v1: start the server",
        ),
        (["--time-limit", "soon"], "'time_limit' (on the command line)"),
        (["--config", "none.yaml"], "cannot read the configuration file none.yaml: No such file"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--model", "nobody:no-such-model"], "unknown provider 'nobody'"),
        (["--model", ""], "scientist: "),
        (["--config", "broken.yaml"], "broken.yaml: line 2, column 1: expected ',' or ']', but got '<stream end>'\n"),
        (["--bib", "none.bib"], "/none.bib': No such file or directory\n"),
        (["--set", "paper.template=poster"], "no template 'poster'"),
        (["--seed", "-1"], "'seed'"),
        (["--set", "min_free_gb=1000000"], "GB are free"),
        (
            (
                "--set subjects.small.model=openai-chat:x --set "
                "subjects.small.base_url=https://models.example.org/v1 --set budget.subject_usd=1"
            ).split(),
            "the price of subject small is not known: set it in USD per million tokens",
        ),
        (["--set", "subjects.small.model=tiny"], "subjects.small: 'tiny' is not a model name"),
        (["--frobnicate"], "No such option: --frobnicate"),
    ],
)
def test_a_setting_that_cannot_be_used(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (place / "broken.yaml").write_text("search: [1, 2\n")
    assert words in refused(capsys, "run", "--idea", "idea.json", *arguments)


@pytest.mark.parametrize("fallback", ["offline", "openai-chat:m@elsewhere"])
def test_a_stopped_server_is_no_reason_to_refuse_a_role_that_has_another_model(fallback: str) -> None:
    name, _, elsewhere = fallback.partition("@")
    other = Alternative(name=name, base_url="http://10.255.255.1:9/v1" if elsewhere else None)
    stopped = ModelSettings(name="openai-chat:m", base_url="http://localhost:9/v1")
    check_local_servers(stopped.model_copy(update={"fallbacks": (other,)}))
    with pytest.raises(UsageError, match="nothing listens at http://localhost:9/v1"):
        check_local_servers(stopped)


def test_a_full_disk(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # a disk cannot be filled in a test: what the operating system says of it is replaced
    usage = type(shutil.disk_usage("/"))(10**12, 10**12 - 5 * 10**8, 5 * 10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)  # pyrefly: ignore
    assert "only 0.50 GB are free" in refused(capsys, "run", "--idea", "idea.json")


def test_a_repository_that_is_not_there_names_no_folder_of_a_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nowhere is not a folder" in refused(capsys, "ablate", "nowhere", "--metric", "out.json:a")


# --- folders --------------------------------------------------------------------------------------------------------


def test_a_name_that_is_taken(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "runs" / "calm").mkdir(parents=True)
    (place / "runs" / "calm" / "notes.txt").write_text("mine")
    line = refused(capsys, "run", "--idea", "idea.json", "--name", "calm")
    assert "runs/calm already exists" in line and "scientist resume runs/calm" in line


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "with space", "x" * 81])
def test_a_name_that_is_no_folder_name(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert "is not a valid folder name" in refused(capsys, "run", "--idea", "idea.json", "--name", name)


def test_a_runs_folder_that_is_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for runs in ("idea.json", "idea.json/below"):
        assert "is a file, not a folder" in refused(capsys, "run", "--idea", "idea.json", "--runs", runs)


@pytest.mark.parametrize("command", ["status", "tree", "stop", "resume", "reproduce"])
def test_a_folder_that_is_no_run(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (place / "empty").mkdir()
    (place / "broken").mkdir()
    (place / "broken" / "events.jsonl").write_text("this is no log, but long enough to look like one" * 20)
    assert "nowhere does not exist" in refused(capsys, command, "nowhere")
    assert "is a file" in refused(capsys, command, "idea.json")
    assert "is not a run" in refused(capsys, command, "empty")
    assert "broken/events.jsonl" in refused(capsys, command, "broken")
    assert "Missing argument 'RUN'" in refused(capsys, command)


def test_what_is_neither_a_run_nor_a_paper(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty").mkdir()
    assert "does not exist: give the folder of a run, or a paper" in refused(capsys, "audit", "nowhere")
    assert "idea.json is not a readable paper: give *.pdf" in refused(capsys, "audit", "idea.json")
    assert "is not a run" in refused(capsys, "audit", "empty")


def test_an_idea_outside_the_offline_catalogue(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--idea", "idea.json"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "'calm'" in err and "--model" in err
    assert sorted(path.name for path in place.iterdir()) == ["idea.json"], "something was left behind"


# --- what a command writes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["--html", "--events", "--tree", "--exchange", "--zip"])
@pytest.mark.parametrize("target", ["run/events.jsonl", "run/config.yaml", "run/control/new.json", "link"])
def test_no_export_is_written_over_what_belongs_to_a_run(
    way: str, target: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "run" / "control").mkdir(parents=True)
    shutil.copy(recorded_run() / "events.jsonl", place / "run")
    (place / "run" / "config.yaml").write_text("seed: 0\n")
    (place / "link").symlink_to(place / "run" / "events.jsonl")
    whole = (place / "run" / "events.jsonl").read_bytes()
    said = refused(capsys, "export", "run", way, target, "--force")
    assert "is a file of a run" in said and "choose a path outside" in said
    assert (place / "run" / "events.jsonl").read_bytes() == whole


def test_no_list_of_references_is_written_over_the_one_that_is_read(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "mine.bib").write_text("@article{a, title={T}, author={A}, year={2020}}\n")
    assert "is an input file" in refused(capsys, "bib", "check", "mine.bib", "--out", "./mine.bib")


@pytest.mark.parametrize(
    ("field", "meant"),
    [
        ("Dataset", "Datasets"),
        ("Metrics", "Metric"),
        ("Experiment", "Experiments"),
        ("Related Works", "Related Work"),
        ("short_hypotheses", "Short Hypothesis"),
    ],
)
def test_a_field_that_is_almost_one_of_an_idea_is_refused_with_its_name(
    field: str, meant: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "typo.json").write_text(json.dumps(IDEA | {field: ["digits"]}))
    assert f"unknown field {field!r}: call it {meant!r}" in refused(
        capsys, "run", "--idea", "typo.json", "--model", "offline"
    )


def test_ctrl_c_while_the_program_loads_is_one_line(place: Path) -> None:
    code = (
        "import importlib.abc, sys\n"
        "class Interrupts(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.startswith('typer'):\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from labwright.agent.cli import main\n"
        "sys.exit(main(['status', 'run']))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert ended.returncode == 130 and ended.stderr == "scientist: interrupted\n"
