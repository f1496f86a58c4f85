"""The command line, one hostile argument at a time: one line, the documented exit code, and nothing is left behind."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.schema.idea import read_idea
from tests.agent.test_cli_bad_input import refused
from tests.inspector.sample_run import make_ended
from tests.inspector.test_logs import written

pytestmark = pytest.mark.slow

IDEA = {"Name": "calm", "Title": "Calm networks", "Experiments": ["train one"]}
SHARED = Path(__file__).parents[2] / "examples" / "ideas" / "label_noise_calibration.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with something of every kind that is the wrong thing."""
    monkeypatch.chdir(tmp_path)
    Path("idea.json").write_text(json.dumps(IDEA))
    Path("text.txt").write_text("words")
    Path("empty.log").touch()
    Path("binary").write_bytes(b"\xff\xfe\x00")
    Path("bad.csv").write_bytes(b"\xff\xfe,1\n")
    Path("x.py").write_text("print(1)\n")
    Path("folder").mkdir()
    Path("blank").mkdir()
    Path("blank/events.jsonl").touch()
    Path("one.bib").write_text("@article{a, title={A title}, author={X, Y}, year={2001}}\n")
    Path("paper.md").write_text("# A paper\n\n" + "Accuracy was 0.9 on the test set of digits. " * 40)
    Path("train.log").write_text("epoch 1\n")
    Path("lean").write_text("#!/bin/sh\n" + f"echo '{json.dumps(interpreter('3.12.1', []))}'\n")
    Path("old").write_text("#!/bin/sh\n" + f"echo '{json.dumps(interpreter('3.8.2', ['numpy', 'ipykernel']))}'\n")
    for name in ("lean", "old"):
        Path(name).chmod(stat.S_IRWXU)
    return tmp_path


def interpreter(version: str, packages: list[str]) -> dict[str, object]:
    """What an interpreter says when it is asked."""
    return {
        "version": version,
        "platform": "Linux",
        "prefixes": [],
        "site": [],
        "packages": [[name, "1.0"] for name in packages],
    }


RUN = [
    (["--time-limit", "12hours"], "'12hours'; write 12h, 90m, 1h30m, 45s or seconds"),
    (["--time-limit", ""], "is not a duration: ''"),
    (["--time-limit", "nan"], "is not a duration"),
    (["--seed", "abc"], "'--seed': Input should be a valid integer"),
    (["--seed", "9" * 30], "'seed'"),
    (["--budget-usd", "nan"], "finite"),
    (["--gpu-hours", "much"], "'--gpu-hours': Input should be a valid number"),
    (["--set", "sandbox.timeout=.inf"], "finite"),
    (["--set", "search.debug_prob=.inf"], "finite"),
    (["--runs", ""], "--runs is empty"),
    (["--context="], "--context is empty"),
    (["--papers", ""], "--papers is empty"),
    (["--papers", "folder"], "contains no PDF"),
    (["--papers", "text.txt"], "text.txt is not a folder"),
    (["--bib", "idea.json"], "contains no BibTeX entry"),
    (["--bib", "binary"], "cannot read the library"),
    (["--data", "a=bad.csv"], "not UTF-8"),
    (["--config", "binary"], "cannot read the configuration"),
    (["--config", "folder"], "cannot read the configuration"),
    (["--template", "folder"], "template.toml"),
    (["--gpus", "99"], "sandbox.device"),
    (["--set", "alerts.command=[no-such-program]"], "alerts.command"),
    (["--set", "sandbox.pretrained=[x]"], "x"),
    (["--set", "sandbox.scorers=[digits=none.py:f]"], "none.py"),
    (["--set", "sandbox.python=/no/python"], "cannot run '/no/python' (sandbox.python)"),
    (["--set", "sandbox.python=./text.txt"], "Permission denied"),
    (["--set", "sandbox.python=/bin/true"], "it is not a Python 3 interpreter"),
    (["--set", "sandbox.python=./lean"], "lacks ipykernel and numpy: install"),
    (["--set", "sandbox.python=./old"], "is Python 3.8.2: experiments need 3.11 or newer"),
    (["--set", "sandbox.readable=/no/folder"], "does not exist"),
    (["--set", "sandbox.readable=/etc"], "experiments may not read"),
    (["--set", "sandbox.readable=/"], "may not read"),
    (["--set", "sandbox.readable=folder"], "is not an absolute path"),
]


@pytest.mark.parametrize(("arguments", "words"), RUN)
def test_what_a_run_is_given(place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    arguments = [one.replace("=./", f"={place}/") for one in arguments]
    assert words in refused(capsys, "run", "--idea", "idea.json", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "blank"], "cannot read the record blank/events.jsonl: the file is empty"),
        (["exec", "binary"], "in UTF-8"),
        (["exec", "x.py", "--timeout", "5minutes"], "not a duration"),
        (["exec", "folder"], "folder does not exist"),
        (["exec", "x.py", "--set", "sandbox.python=/no/python"], "cannot run '/no/python'"),
        (["bib", "check", "idea.json"], "contains no BibTeX entry"),
        (["bib", "check", "one.bib", "--papers", "none"], "none is not a folder"),
        (["bib", "check", "one.bib", "--out", "folder"], "is a folder"),
        (
            "judge paper.md --model openai-chat:m --base-url http://127.0.0.1:9/v1 --task empty.log".split(),
            "empty.log is empty: give --task",
        ),
        (
            ["judge", "paper.md", "--model", "openai-chat:m", "--base-url", "http://127.0.0.1:9/v1", "--log", "no.log"],
            "no.log (--log) does not exist: . contains empty.log, text.txt, train.log",
        ),
        (["judge", "empty.log"], "empty.log"),
        (["judge", "paper.md", "--n", "many"], "a valid integer"),
        (["judge", "paper.md", "--rubric", "folder"], "folder"),
        (["judge-agreement", "binary", "binary"], "binary"),
        (["ideate", "--topic", "folder"], "folder"),
        (["ideate", "--topic", "text.txt", "-n", "0"], "greater than or equal to 1"),
        (["prefetch", "x.py"], "x.py"),
        (["audit", "paper.md", "--results", "none"], "none"),
        (["missing-ablations", "paper.md", "--plan", "binary"], "binary"),
        (["bench", "ablation", "--data", "folder"], "folder"),
        (["bench", "mlr", "--tasks", "folder"], "folder"),
        (["view", "text.txt"], "text.txt"),
    ],
)
def test_what_other_commands_are_given(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused(capsys, *arguments)


def test_the_offline_model_that_was_named_is_told_to_read_no_papers(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "paper.md", "--model", "offline"]) == 2
    assert "the offline model cannot read papers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "RUN", "--html", "none/page.html"], "none is not a folder; create it"),
        (["export", "RUN", "--tree", "folder"], "is a folder"),
        (["export", "RUN", "--zip", "/proc/x.zip"], "/proc"),
        (["note", "RUN", "try fewer rows"], "scientist branch RUN --from NODE|STAGE --note TEXT"),
        (["mark", "RUN", "n0001", "--reason", "it leaks"], "scientist branch RUN --from NODE|STAGE"),
        (["logs", "RUN", "--node", "a/b"], "has no node 'a/b'"),
        (["branch", "RUN", "--from", "../x"], "'../x' is neither"),
        (["reproduce", "RUN", "--limit", "0"], "limit"),
    ],
)
def test_what_is_asked_of_a_finished_run(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    run = written(place / "over", make_ended())
    found = refused(capsys, *(str(run) if one == "RUN" else one for one in arguments))
    assert words in found, found


def underscored(key: str) -> str:
    return key.lower().replace(" ", "_")


@pytest.mark.parametrize("spell", [str.lower, str.upper, underscored])
def test_the_fields_of_an_idea_in_any_spelling(place: Path, spell: Callable[[str], str]) -> None:
    [raw] = json.loads(SHARED.read_text())
    Path("other.json").write_text(json.dumps({spell(key): value for key, value in raw.items()}))
    assert read_idea(Path("other.json")) == read_idea(SHARED)


def test_a_field_of_an_idea_that_stands_there_twice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("twice.json").write_text(json.dumps({**IDEA, "title": "Another"}))
    assert "Title is given twice, once as 'title'" in refused(capsys, "run", "--idea", "twice.json")
