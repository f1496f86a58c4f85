"""The command line: what it loads, what it says, and what it does with the unexpected."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from typer.core import TyperGroup

from labwright.agent.cli import main
from labwright.agent.cli import run as run_command
from labwright.agent.cli.errors import print_result
from labwright.agent.cli.options import SETTING_OPTIONS, CliCommand
from labwright.agent.settings import describe_setting
from labwright.evals.commands import app
from labwright.record.event_log import read_state
from labwright.record.lock import acquire_lock
from labwright.record.run_folder import RunFolder
from labwright.record.schema.idea import Idea
from tests.inspector.sample_run import make_ended, make_sample
from tests.inspector.test_logs import written

pytestmark = pytest.mark.slow

HEAVY = ("torch", "numpy", "pydantic_ai", "langgraph", "sklearn", "matplotlib", "jupyter_client", "transformers")
HELP = typer.main.get_command(app)
assert isinstance(HELP, TyperGroup)
COMMANDS = list(HELP.commands)
WITH_SETTINGS = [
    name for name, one in HELP.commands.items() if SETTING_OPTIONS.keys() & {part.name for part in one.params}
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    idea = {"Name": "calm", "Title": "Calm networks", "Experiments": ["one"]}
    (tmp_path / "idea.json").write_text(json.dumps(idea))
    return tmp_path


def test_help_and_looking_at_a_run_load_nothing_heavy(tmp_path: Path) -> None:
    """All in one process: what has loaded nothing of a part of the program comes first."""
    rooms = tuple(f"labwright.{name}" for name in ("models", "sandbox", "review", "stages", "agent.settings"))
    evals = Path(import_module("labwright.evals").__file__ or "").parent  # all but the declarations of its commands
    rooms += tuple(f"labwright.evals.{one.stem}" for one in evals.iterdir() if one.stem not in ("__init__", "commands"))
    folder = str(written(tmp_path / "calm", make_sample()))
    helps = {one: [*one.split(), "--help"] for one in ("", *COMMANDS)}
    steps: list[tuple[list[list[str]], tuple[str, ...]]] = [
        ([words for one, words in helps.items() if one not in WITH_SETTINGS], HEAVY + rooms),
        ([["tree", folder], ["status", folder], *(helps[one] for one in WITH_SETTINGS)], HEAVY),
    ]
    code = (
        "import sys\nfrom labwright.agent.cli import main\n"
        f"for calls, modules in {steps!r}:\n"
        "    assert not any(main(words) for words in calls)\n"
        "    print('loaded', [name for name in modules if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert [one for one in done.stdout.splitlines() if one.startswith("loaded")] == ["loaded []"] * 2


def test_the_help_of_an_option_is_the_description_of_its_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--workers N Number of concurrent experiments --gpus" in text
    assert all(describe_setting(one.key) for one in SETTING_OPTIONS.values())


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f" {command} " in text for command in COMMANDS)
    assert all(f"{code} " in text.split("Exit codes:")[1] for code in (0, 1, 2, 3, 4, 5, 130))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: scientist {command} ")


def test_no_command_shows_the_help_and_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: scientist" in capsys.readouterr().out


def test_what_a_command_does_takes_what_it_declares() -> None:
    for declared in CliCommand.__subclasses__():
        module, function = declared.work.split(":")
        [parameter, returned] = get_type_hints(getattr(import_module(module), function)).values()
        assert declared in (get_args(parameter) or (parameter,)) and returned is int, declared
        with pytest.raises(TypeError, match="has no field jason"):
            declared(jason=True)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("scientist 0.")


# --- looking --------------------------------------------------------------------------------------------------------


def test_tree_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(tmp_path / "calm", make_ended()))
    assert main(["tree", folder]) == 0
    text = capsys.readouterr().out
    assert "★" in text and "n0005 tune" in text and "\x1b" not in text
    assert main(["tree", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"metric", "winner", "stages", "ancestry", "tuning"}
    assert [stage["stage"] for stage in found["stages"]] == ["preliminary", "tuning", "agenda", "ablation"]
    assert set(found["stages"][0]) == set("stage node_limit best ended limited pending nodes".split())
    assert set(found["stages"][0]["nodes"][0]) == set(
        (
            "id parent depth stage kind status decision seed title varies metric attempts plots seconds "
            "failure why again seedless best on_best_path suspect closed author cells"
        ).split()
    )


def test_status_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(tmp_path / "calm", make_ended()))
    assert main(["status", folder]) == 0
    assert "done (exit code 0)" in capsys.readouterr().out
    assert main(["status", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(
        (
            "run title looks memory model seed condition process phase next exit_code reason started last_event "
            "elapsed ancestry paused steering stages cost code_seconds roles budget remaining paper "
            "judgement no_judgement last_events answers cells hours collected freed tuning plan amendments "
            "diagnosis kind effects findings locked decisions protocol prior_work installed llm_usage"
        ).split()
    )
    assert (found["condition"], found["process"], found["started"]) == ("done", None, "2023-11-14T22:13:20+00:00")


def test_looking_changes_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path / "calm", make_ended())
    before = (read_state(folder).event_count, sorted(path.name for path in folder.iterdir()))
    for command in ("tree", "status", "stop"):
        assert main([command, str(folder)]) == 0
    assert (read_state(folder).event_count, sorted(path.name for path in folder.iterdir())) == before


def test_stop_asks_the_process_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "calm", make_sample())
    assert main(["stop", str(folder)]) == 0
    assert "nothing to stop" in capsys.readouterr().out and not list(RunFolder(folder).control.iterdir())
    with acquire_lock(folder):
        assert main(["stop", str(folder)]) == 0
    [order] = RunFolder(folder).control.iterdir()
    assert json.loads(order.read_text())["verb"] == "stop"


def test_audit_names_findings_and_exits_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(tmp_path / "calm", make_sample()))
    assert main(["audit", folder]) == 5
    out = capsys.readouterr().out
    assert "changed: nodes/n0001/source: " in out and "\x1b" not in out
    assert out.rstrip().splitlines()[-1].endswith("findings: 0 unbound")
    assert main(["audit", folder, "--json"]) == 5
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"unbound", "released", "counts", "findings"}
    assert {"kind": "not checked", "where": "paper", "what": "this run has no paper yet"} in found["findings"]


# --- running --------------------------------------------------------------------------------------------------------


def fake_run(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Replace functions of `agent.run`: a real run takes minutes; here only the command around it counts."""
    for name, function in functions.items():
        monkeypatch.setattr(run_command, name, function)


def test_run_hands_over_what_was_asked(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def start(idea: Idea, settings: Any, *, runs: Path, name: str, listener: Any, plan: Any, review: Any) -> int:
        given.update(idea=idea, settings=settings, runs=runs, name=name)
        written(runs / name, make_ended())
        return 0

    fake_run(monkeypatch, start_study=start)
    assert (
        main(
            [
                *"run --idea idea.json --runs out --name calm --workers 4 --time-limit 2h --seed 7".split(),
                *"--set search.order=ticket --set num_drafts=2".split(),
            ]
        )
        == 0
    )
    settings = given["settings"]
    assert (given["idea"].name, given["runs"], given["name"]) == ("calm", Path("out"), "calm")
    assert (settings.search.num_workers, settings.time_limit, settings.seed) == (4, 7200.0, 7)
    assert (settings.search.order, settings.search.num_drafts) == ("ticket", 2)
    out = capsys.readouterr().out
    assert out.startswith("run folder: out/calm\n")
    assert [line.split()[0] for line in out.splitlines()[-5:]] == ["verdicts", "paper", "page", "cost", "next"]
    assert "paper     out/calm/paper/paper.pdf\n" in out and "scientist view out/calm\n" in out


def test_resume_hands_over_overrides_and_names_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def resume(run: Path, overrides: dict[str, Any], *, listener: Any) -> int:
        given.update(run=run, overrides=overrides)
        return 0

    fake_run(monkeypatch, resume_run=resume)
    story = make_sample()
    folder = written(place / "calm", story)
    assert main(["resume", "calm", "--workers", "3", "--set", "num_seeds=4", "--time-limit", "1h"]) == 0
    assert given == {"run": Path("calm"), "overrides": {"num_seeds": 4, "search.num_workers": 3, "time_limit": "1h"}}
    assert main(["resume", str(folder), "--set", "search.num_seed=4"]) == 2


def crash(*_: Any, **__: Any) -> int:
    raise RuntimeError("a fault\nof ours")


def test_the_unexpected_is_one_line_and_a_saved_traceback(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(idea: Idea, settings: Any, *, runs: Path, name: str, listener: Any, plan: Any, review: Any) -> int:
        written(runs / name, make_sample())
        return crash()

    fake_run(monkeypatch, start_study=start)
    assert main(["run", "--idea", "idea.json", "--name", "calm"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("scientist: unexpected error: RuntimeError: a fault of ours; the traceback is in runs/calm")
    assert err.count("\n") == 1
    [saved] = Path("runs/calm").glob("crash-*.txt")
    assert "RuntimeError: a fault\nof ours" in saved.read_text()


def test_debug_shows_the_traceback(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIENTIST_DEBUG", "1")
    assert main(["run", "--idea", "none.json"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_130(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    fake_run(monkeypatch, start_study=interrupted)
    assert main(["run", "--idea", "idea.json"]) == 130
    assert "scientist resume" in capsys.readouterr().err


# --- exec -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exec_runs_a_file_as_a_node_would(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "good.py").write_text(
        "import lab\nprint('  hello \\x1b[31mred [bold]')\n"
        "lab.result('accuracy', 0.5, condition='plain', dataset='digits')\n"
    )
    assert main(["exec", "good.py"]) == 0
    out = capsys.readouterr().out
    assert "  hello red [bold]" in out and "accuracy" in out and "logged" in out and "\x1b" not in out
    (place / "bad.py").write_text("1 / 0\n")
    assert main(["exec", "bad.py", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(
        (
            "seconds failure measurements cells arrays sealed artifacts figures peak_host_bytes "
            "peak_gpu_bytes stdout_tail isolation"
        ).split()
    )
    assert "ZeroDivisionError" in found["failure"]["message"]
    assert sorted(path.name for path in place.iterdir()) == ["bad.py", "good.py", "idea.json"]


@pytest.mark.slow
def test_exec_measures_the_cells_that_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "grid.py").write_text(
        "import importlib\nimport lab\n\ndef run(cell):\n    arm = importlib.import_module('arms.' + cell.arm)\n"
        "    lab.result('size', float(open('sizes.txt').read()) + arm.SIZE + cell.setting['more'])\n\n"
        "lab.measure(run)\n"
    )
    (place / "arms").mkdir()
    (place / "sizes.txt").write_text("2")
    for number, arm in enumerate("ab"):
        (place / "arms" / f"{arm}.py").write_text(f"SIZE = {number}\n")
    assert (
        main(
            [
                "exec",
                "grid.py",
                "--cells",
                "a@low, b@low",
                "--on",
                "digits",
                "--setting",
                "more=1e-1",
                "--setting",
                "by=name",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [(one["condition"], one["value"]) for one in found["measurements"]] == [("a@low", 2.1), ("b@low", 3.1)]
    assert [one["outcome"] for one in found["cells"]] == ["measured", "measured"]
    for arguments, words in (
        (["grid.py"], "grid.py measures cells (lab.measure): choose some, e.g. --cells"),
        (["grid.py", "--cells", "a"], "--cells requires --on, and --setting requires both"),
        (["grid.py", "--cells", "a@", "--on", "digits"], "write arm or arm@level"),
        (["grid.py", "--cells", "../a", "--on", "digits"], "'../a' is not a cell"),
        (["grid.py", "--cells", "a", "--on", "digits", "--setting", "more"], "'more' is not NAME=VALUE"),
        (["sizes.txt", "--setting", "more=1"], "--cells requires --on, and --setting requires both"),
        (["grid.py", "--cells", "a", "--on", "nowhere"], "--on: unknown dataset 'nowhere'"),
        (["sizes.txt", "--cells", "a", "--on", "digits"], "sizes.txt does not call lab.measure"),
    ):
        assert main(["exec", *arguments]) in (1, 2)
        assert words in " ".join(capsys.readouterr().err.split())


def test_json_for_a_terminal_has_no_character_that_it_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    """U+009B starts a command as escape and bracket do, and JSON does not escape it by itself."""
    title = "a\x9b2J\x1bc\u202eb"
    print_result(Idea.model_validate({"Name": "calm", "Title": title, "Experiments": ["a"]}), (), json=True)
    assert (out := capsys.readouterr().out).isascii() and json.loads(out)["title"] == title
    print_result({"title": title}, (), json=True)
    out = capsys.readouterr().out
    assert out.isascii() and "\x1b" not in out and json.loads(out) == {"title": title}
