"""A parser of untrusted input sees its input and its program, and nothing else."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from labwright.agent.cli.commands import run_program
from labwright.pdf import reader
from labwright.pdf.reader import PdfError, isolate_workers, read_pdf, render_page
from labwright.sandbox.isolation import bubblewrap
from labwright.sandbox.isolation.bubblewrap import (
    IsolationStatus,
    SandboxSpec,
    build_command,
    get_probed_isolation,
    isolate_command,
)
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from tests.review.test_judge import pdf

isolated = pytest.mark.skipif(not get_probed_isolation().is_on, reason="no sandbox here")

HOSTILE_PROGRAM = """
import json, os, socket, sys
from pathlib import Path
found = {"input": sys.stdin.read()}
def attempt(name, act):
    try:
        act()
        found[name] = "done"
    except OSError as error:
        found[name] = "refused"
attempt("read", lambda: Path(sys.argv[1]).read_text())
attempt("list", lambda: os.listdir(os.path.dirname(sys.argv[1])))
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), timeout=5))
attempt("write", lambda: Path(__file__).write_text("pass"))
attempt("kill", lambda: os.kill(int(sys.argv[3]), 0))
print(json.dumps(found))
"""


@isolated
def test_an_isolated_command_reaches_no_file_network_or_process(tmp_path: Path) -> None:
    program, secret = tmp_path / "program.py", tmp_path / "home" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("key")
    program.write_text(HOSTILE_PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-P", str(program), str(secret), port, str(os.getpid())]
        outside = subprocess.run(command, input="data", capture_output=True, text=True, check=True, timeout=600)
        program.write_text(HOSTILE_PROGRAM)
        inside = subprocess.run(
            isolate_command(command, program), input="data", capture_output=True, text=True, check=True, timeout=60
        )
    attempts = ("read", "list", "network", "write", "kill")
    assert json.loads(outside.stdout) == {"input": "data"} | dict.fromkeys(attempts, "done")
    assert json.loads(inside.stdout) == {"input": "data"} | dict.fromkeys(attempts, "refused")


@isolated
@pytest.mark.slow
def test_pdfs_are_read_and_drawn_in_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def isolate(command: Sequence[str], program: Path) -> list[str]:
        commands.append(isolate_command(command, program))
        return commands[-1]

    plain, picture = read_pdf(io.BytesIO(pdf(["Rain falls"]))), render_page(io.BytesIO(pdf(["Rain"])), 1, pixels=90)
    monkeypatch.setattr(reader, "_isolate", reader._isolate)  # restored after the test
    isolate_workers(isolate)
    assert read_pdf(io.BytesIO(pdf(["Rain falls"]))) == plain
    assert render_page(io.BytesIO(pdf(["Rain"])), 1, pixels=90) == picture
    with pytest.raises(PdfError, match="damaged"):
        read_pdf(io.BytesIO(b"no PDF"))
    assert [command[0] for command in commands] == ["bwrap"] * 3


def test_without_a_sandbox_the_command_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "get_probed_isolation", lambda: IsolationStatus(is_on=False))
    assert isolate_command(["python", "worker.py"], Path("worker.py")) == ["python", "worker.py"]


@isolated
def test_the_program_isolates_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_isolate", reader._isolate)  # restored after the test
    assert run_program(["--version"]) == 0
    assert reader._isolate(["true"], Path("worker.py"))[0] == "bwrap"


@pytest.mark.skipif(not get_probed_isolation().between_cells, reason="nothing guards a command here")
def test_nothing_starts_whose_host_has_ended(tmp_path: Path) -> None:
    """A sandbox ends with its host only once it is complete, some milliseconds after its start."""
    spec = SandboxSpec(
        tmp_path, environments=inspect_interpreter(sys.executable).trees, guard=sys.executable, with_host=True
    )
    with subprocess.Popen(build_command(["echo", "ran"], spec), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ran:
        assert ran.stdout is not None and ran.stdout.read() == b"ran\n"
    ended = subprocess.run(build_command(["echo", "ran"], spec), input=b"", capture_output=True, check=False)
    assert ended.returncode and not ended.stdout and b"the host process ended" in ended.stderr
