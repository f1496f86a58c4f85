"""A run that another version recorded: every command that opens one says so in one line, and exits 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.event_log import EventLogTail
from labwright.record.line_store import EVENTS_FILE, FORMAT_VERSION, RecordVersionError
from tests.inspector.sample_run import make_ended
from tests.inspector.test_logs import written

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
    for name in ("other", "calm"):
        log = written(tmp_path / name, make_ended()) / EVENTS_FILE
        first, _, rest = log.read_bytes().partition(b"\n")
        log.write_bytes(
            first.replace(b'"format":%d' % FORMAT_VERSION, b'"format":%d' % (FORMAT_VERSION + 1)) + b"\n" + rest
        )
    return tmp_path / "calm"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_so_in_one_line(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.replace("RUN", str(run)).split()) == 2
    out, error = capsys.readouterr()
    assert out == "" and len(error.strip().splitlines()) == 1
    assert (
        f"recorded by another version of scientist (format {FORMAT_VERSION + 1}, this one reads "
        f"{FORMAT_VERSION})" in error
    )
    assert "scientist run --idea" in error


def test_a_watched_log_of_another_version_is_refused(run: Path) -> None:
    with pytest.raises(RecordVersionError):
        EventLogTail(run).read()
