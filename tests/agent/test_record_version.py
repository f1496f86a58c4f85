"""A run that another version recorded: every command that opens one says so in one line, and exits 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.events.run_events import LOG_FORMAT_VERSION, RunStarted
from labwright.record.log_reader import EventLogTail, RecordVersionError
from tests.agent.test_cli import written
from tests.inspector.sample_run import make_ended

COMMANDS = (
    "resume RUN",
    "branch RUN --from tuning",
    "write RUN",
    "stop RUN",
    "pause RUN",
    "kill RUN n0001 --reason x",
    "mark RUN n0001 --reason x",
    "note RUN x",
    "status RUN",
    "tree RUN",
    "tree RUN --watch",
    "logs RUN",
    "logs RUN --follow",
    "why RUN",
    "view RUN",
    "export RUN --events -",
    "trace RUN 0.5",
    "audit RUN",
    "reproduce RUN",
    "judge RUN",
    "compare RUN RUN/../other",
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    story = make_ended()
    event, at = story.events[0]
    assert isinstance(event, RunStarted)
    story.events[0] = (event.model_copy(update={"format": LOG_FORMAT_VERSION + 1}), at)
    written(tmp_path / "other", story)
    return written(tmp_path / "calm", story)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_so_in_one_line(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.replace("RUN", str(run)).split()) == 2
    out, error = capsys.readouterr()
    assert out == "" and len(error.strip().splitlines()) == 1
    assert (
        f"recorded by another version of scientist (format {LOG_FORMAT_VERSION + 1}, this one reads "
        f"{LOG_FORMAT_VERSION})" in error
    )
    assert "scientist run --idea" in error


def test_a_watched_log_of_another_version_is_refused(run: Path) -> None:
    with pytest.raises(RecordVersionError):
        EventLogTail(run).read()
