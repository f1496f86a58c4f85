"""Keys from a `.env` file: taken where they are missing, never shown, and nothing else with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labwright.agent.api_keys import read_keys
from labwright.agent.cli import main
from labwright.agent.settings import compose_settings
from labwright.record.events.paper_events import PaperJudged
from tests.stages import finished_run

FILE = """
# providers
OPENAI_API_KEY=first-secret   # mine
export ANTHROPIC_API_KEY="second secret"
GROQ_API_KEY=''
OLLAMA_BASE_URL='http://box:11434/v1'
OPENAI_BASE_URL=http://elsewhere/v1
LD_PRELOAD=/evil.so
PATH=/nowhere
this is no line
"""


def test_missing_keys_are_taken_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(FILE)
    environment = {"PATH": "/bin"}
    assert set(read_keys(tmp_path, environment)) == {
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "OLLAMA_BASE_URL",
        "OPENAI_BASE_URL",
    }
    assert environment == {
        "PATH": "/bin",
        "OPENAI_API_KEY": "first-secret",
        "ANTHROPIC_API_KEY": "second secret",
        "OLLAMA_BASE_URL": "http://box:11434/v1",
        "OPENAI_BASE_URL": "http://elsewhere/v1",
    }


def test_the_environment_comes_first_and_its_key_goes_to_no_address_of_a_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(FILE)
    environment = {"OPENAI_API_KEY": "real"}
    read_keys(tmp_path, environment)
    assert environment["OPENAI_API_KEY"] == "real"
    assert "OPENAI_BASE_URL" not in environment


def test_a_key_beside_the_configuration_can_be_used_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "x")
    monkeypatch.delenv("MY_API_KEY")  # so that what is added is taken away again
    monkeypatch.setenv("MY_BASE_URL", "x")
    monkeypatch.delenv("MY_BASE_URL")
    (tmp_path / ".env").write_text("MY_API_KEY=k\nMY_BASE_URL=http://here/v1\n")
    (tmp_path / "c.yaml").write_text("models: {name: 'openai-chat:m', base_url: '${MY_BASE_URL}'}")
    assert compose_settings(config=tmp_path / "c.yaml").models.base_url == "http://here/v1"


def test_the_command_line_reads_it_and_shows_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "x")
    monkeypatch.delenv("OPENROUTER_API_KEY")
    (tmp_path / ".env").write_text("OPENROUTER_API_KEY=sk-or-very-secret\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--idea", "none.json"]) == 2
    assert os.environ["OPENROUTER_API_KEY"] == "sk-or-very-secret"
    shown = capsys.readouterr()
    assert "very-secret" not in shown.out + shown.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["resume", "RUN", "--set", "paper.template=none"],
        ["write", "RUN", "--set", "paper.template=none"],
        ["judge", "RUN", "--model", "nonsense"],
        ["reproduce", "RUN", "--set", "sandbox.python=none"],
        ["branch", "RUN", "--from", "n0002", "--set", "models.name=nonsense"],
    ],
)
def test_who_takes_a_run_up_finds_the_keys_beside_its_configuration_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    for folder in ("conf", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "conf" / ".env").write_text("PLANTED_API_KEY=beside\n")
    (tmp_path / "conf" / "c.yaml").write_text("models: {name: offline}\n")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PLANTED_API_KEY", "x")
    monkeypatch.delenv("PLANTED_API_KEY")
    settings = compose_settings(config=Path("../conf/c.yaml"))
    assert os.environ.pop("PLANTED_API_KEY") == "beside"
    run = finished_run.write_run(tmp_path / "run", PaperJudged(why="off"), settings=settings)
    assert main([str(run) if word == "RUN" else word for word in command]) != 0
    capsys.readouterr()
    assert os.environ.get("PLANTED_API_KEY") == "beside"
