"""Kills of the small run over HTTP, and what must hold after each of them.

    python -m tests.faults.run_killer RUN URL NOTED [KIND,KIND...]

starts or resumes the run, and kills itself (SIGKILL) right after the first event of one of the kinds. What it begins to
execute of cells it notes beside the run, in `RUN.begun`, which is none of the record. With STUDY_ON_RAY in the
environment, it starts the run on the cluster at this address.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from labwright.record.event_log import is_run, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.events.search_events import AttemptExecuted, CellExecuted
from labwright.record.line_store import read_stored_rows
from labwright.record.reducers.run_state import RunState
from labwright.sandbox import cell_runner
from labwright.sandbox.cell_runner import execute
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.results import KernelExecution
from labwright.sandbox.workspace import KernelScript
from tests.execution_cache import reusing_executions_between_runs
from tests.faults.http_study import find_noted, make_settings, resume_run, start_study
from tests.models.openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600.0
"""Seconds that one process gets."""
MAX_EXIT_SECONDS = 3.0
"""Seconds within which the kernels and other processes of a killed program end."""
_PR_SET_CHILD_SUBREAPER = 36
KINDS: tuple[str, ...] = (
    "started",
    "resumed",
    "prepared",
    "decided",
    "answered",
    "proposed",
    "stepped",
    "executed",
    "plotted",
    "reviewed",
    "judged",
    "stage_winner_chosen",
    "summarised",
    "ablations_planned",
    "ablations_missed",
    "unsealed",
    "work_done",
    "figures_made",
    "drafted",
    "released",
    "assessed",
    "ended",
)
"""Every kind of event that the small run has."""


@dataclass
class KilledRun:
    """A run under kills."""

    run: Path
    server: OpenAIServer
    noted: Path
    kills: list[str] = field(default_factory=list[str])
    """After which event, or how many seconds, each process was killed."""
    damaged: list[str] = field(default_factory=list[str])
    """What was lost of the log."""
    outlived: list[psutil.Process] = field(default_factory=list[psutil.Process])
    """Processes that outlived their killed program for `MAX_EXIT_SECONDS`; resuming ends them."""
    _committed: bytes = b""
    """The complete lines of the log after the last kill."""
    _asked: list[tuple[Counter[str], Counter[str]]] = field(default_factory=list[tuple[Counter[str], Counter[str]]])
    """Of each process: the answers committed before it, and what it asked the server, both by hash of the request."""

    def kill_after(self, kinds: Sequence[str]) -> str | None:
        """Let it work until the first event of one of these kinds, and kill it there; the kind, None when it ended."""
        return self.kill_after_acting(kinds, wait_for_end)

    def kill_after_acting(self, kinds: Sequence[str], act: Callable[[subprocess.Popen[bytes]], object]) -> str | None:
        """The same, while `act` does something to it and then waits for its end."""
        before = self._read_events()
        code = self._run_process(kinds, act)
        assert code in (-signal.SIGKILL, 0), f"exit code {code}"
        return next((event.type for event in self._read_events()[len(before) :] if event.type in kinds), None)

    def kill_within(self, seconds: float) -> bool:
        """Let it work for so many seconds, and kill it; whether it was still at work."""
        return self._run_process((), lambda child: child.wait(seconds)) == -signal.SIGKILL

    def kill_amid_cells(self, seconds: float, named: str = "", cells: int = 1) -> bool:
        """Let it work until it begins to execute so many cells whose names contain `named`, and for so many seconds
        more, and kill it; whether it was still at work."""
        least = self._count_begun(named) + cells

        def wait(child: subprocess.Popen[bytes]) -> None:
            until = time.monotonic() + LIMIT_SECONDS
            while child.poll() is None and self._count_begun(named) < least and time.monotonic() < until:
                time.sleep(0.01)
            child.wait(seconds)

        return self._run_process((), wait) == -signal.SIGKILL

    def run_to_end(self) -> RunState:
        """The state of the finished run."""
        code = self._run_process((), wait_for_end)
        assert code == 0, f"exit code {code}: {read_state(self.run).process_end}"
        return read_state(self.run)

    def count_repeated_requests(self) -> int:
        """How many requests went out for answers that were committed. Two keys may ask the same: all of them count."""
        final = self._count_committed()
        return sum(
            max(0, number - (final[sha] - committed[sha]))
            for committed, asked in self._asked
            for sha, number in asked.items()
        )

    def list_begun(self) -> list[str]:
        """Every execution of a cell for a node that was begun, in its order, as `NODE CELL`: noted beside the run."""
        notes = notes_folder(self.run)
        found = re.findall(r"^(n\d+)/\d+( .+)$", notes.read_text(), re.M) if notes.exists() else []
        return [node + cell for node, cell in found]

    def list_running(self) -> list[str]:
        """The processes that outlived a killed program and still run."""
        return [str(one) for one in self.outlived if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    def _count_begun(self, named: str) -> int:
        return sum(named in name for name in self.list_begun())

    def list_executed(self) -> list[tuple[str, str]]:
        """Every execution of a cell that was committed: `NODE CELL`, and its id, which has key and ordinal."""
        return [
            (f"{one.node} {one.run.cell.name}", one.run.id)
            for one in self._read_events()
            if isinstance(one, CellExecuted)
        ]

    def find_repeated(self) -> list[str]:
        """Attempts and answers that stand in the log more than once."""
        events = self._read_events()
        done = Counter(f"attempt {one.node}/{one.attempt.number}" for one in events if isinstance(one, AttemptExecuted))
        done += Counter(f"answer {one.key}" for one in events if isinstance(one, CallAnswered))
        return [name for name, number in done.items() if number > 1]

    def _run_process(self, kinds: Sequence[str], wait: Callable[[subprocess.Popen[bytes]], object]) -> int:
        began = time.monotonic()
        committed, before = self._count_committed(), len(self.server.requests)
        command = [
            sys.executable,
            "-m",
            "tests.faults.run_killer",
            str(self.run),
            self.server.url,
            str(self.noted),
            ",".join(kinds),
        ]
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process
        others = set(psutil.Process().children(recursive=True))
        child = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        with suppress(subprocess.TimeoutExpired):
            wait(child)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait(10)
        self.outlived += _wait_for_children(others)
        self._asked.append(
            (committed, Counter(find_noted(body, self.noted).sha256 for body in self.server.requests[before:]))
        )
        if code:
            seconds = time.monotonic() - began
            self.kills.append(self._read_events()[-1].type if kinds and self._read_events() else f"{seconds:.1f} s")
        self._check()
        return code

    def _check(self) -> None:
        if is_run(self.run):
            whole, path = self._committed, self.run / "events.jsonl"
            rows = list(read_stored_rows(path))
            self._committed = path.read_bytes()[: rows[-1].offset + rows[-1].length if rows else 0]
            self.damaged += [] if self._committed.startswith(whole) else ["a committed line is missing"]

    def _read_events(self) -> list[Event]:
        return [event for event, _ in read_events(self.run / "events.jsonl")] if is_run(self.run) else []

    def _count_committed(self) -> Counter[str]:
        return Counter(one.request_sha256 for one in self._read_events() if isinstance(one, CallAnswered))


def _wait_for_children(others: set[psutil.Process]) -> list[psutil.Process]:
    """Wait until no children but `others` are left; return those that do not end in time."""
    until = time.monotonic() + MAX_EXIT_SECONDS
    while True:
        left = [one for one in psutil.Process().children(recursive=True) if one not in others]
        _, alive = psutil.wait_procs(left, timeout=0.1)
        if not alive or time.monotonic() > until:
            return alive


def wait_for_end(child: subprocess.Popen[bytes]) -> None:
    child.wait(LIMIT_SECONDS)


def notes_folder(run: Path) -> Path:
    """Where a run notes what it begins to execute of cells."""
    return run.with_name(f"{run.name}.begun")


@contextmanager
def noting_cells(notes: Path) -> Generator[None]:
    """While inside, each execution of a cell in a kernel begins with a line: node, attempt or check, cell."""

    async def noted(kernel: Kernel, script: KernelScript, *rest: Any, **more: Any) -> KernelExecution:
        if not script.cell.is_script:
            with notes.open("a") as file:
                file.write(f"{script.job.name} {script.cell.name}\n")
        return await execute(kernel, script, *rest, **more)

    cell_runner.execute = noted
    try:
        yield
    finally:
        cell_runner.execute = execute


def main(run: str, url: str, noted: str, kinds: str = "") -> int:
    """One process of a run that may kill itself."""
    folder, fatal = Path(run), kinds.split(",") if kinds else []

    def listen(event: Event, _: RunState) -> None:
        if event.type in fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    changes = {"until": os.environ["STUDY_UNTIL"]} if os.environ.get("STUDY_UNTIL") else {}
    changes |= {"gates": os.environ["STUDY_GATES"]} if os.environ.get("STUDY_GATES") else {}
    if (cluster := os.environ.get("STUDY_ON_RAY")) is not None:
        settings = make_settings(url, sandbox__executor="ray", sandbox__ray=cluster, **changes)
        return start_study(folder.parent, folder.name, settings, Path(noted), listen)
    with reusing_executions_between_runs(), noting_cells(notes_folder(folder)):
        if is_run(folder) and read_events(folder / "events.jsonl"):
            return resume_run(folder, Path(noted), listen)
        shutil.rmtree(folder, ignore_errors=True)  # killed before it began
        return start_study(folder.parent, folder.name, make_settings(url, **changes), Path(noted), listen)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
