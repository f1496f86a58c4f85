"""Studies of every kind, killed at random moments with damaged last lines, compared with an undisturbed one.

python -m benchmarks.study_kills KIND FOLDER [--kills N] [--seed N]

KIND is `question`, `ablation`, `repository` (a paper about a repository) or `paper`. A process gets SIGKILL after a
random time; half of the time the end of its log is then damaged as by a power failure: bytes after the last line, or
the last line cut. The study is continued until it ends, and started anew until there were enough kills. What a process
starts (commands, kernels) and requests of models is written next to the record (`FOLDER/NAME.started`). Prints one JSON
object; exits 1 if a committed line is lost, something committed is done again, or the results differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args

from labwright.agent import run
from labwright.agent.audit import audit_run
from labwright.agent.cli import main as run_command
from labwright.agent.cli import preflight
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.client import hash_request
from labwright.models.replay import ScriptedModel
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.event_log import is_run, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.events.search_events import AttemptExecuted, CellExecuted
from labwright.record.line_store import read_stored_rows
from labwright.record.schema.nodes import StudyKind
from labwright.sandbox import cell_runner
from labwright.sandbox.cell_scheduler import CellOrder, RunningCell
from labwright.sandbox.job import CellEnded
from labwright.sandbox.repository.command_cells import CommandWorker
from tests.agent import test_question, test_repository_study
from tests.evals.exp_set import make_repository as make_draws
from tests.faults.http_study import SMALL_SETTINGS
from tests.faults.run_comparison import comparable_latex, comparable_tree
from tests.repositories import make_repository as make_tinyfit
from tests.stages.small_study import IDEA, make_small_model

KINDS = (*get_args(StudyKind), "repository")
LIMIT_SECONDS = 600.0
"""Time limit of one process in seconds."""
MAX_SECONDS = 20.0
"""Maximum time from the first event of a process to its kill."""
EARLY = 0.15
"""Share of kills that may come before the first event of a process."""
TASK = test_question.TOML.replace('protect = ["lib/*"]\n', "").replace("seeds = 2", "seeds = 4")
ABLATE = "ablate tinyfit --metric metrics.json:test.r2 --top 1 --budget-runs 40 --workers 2 --out".split()


# --- one process of a study -------------------------------------------------------------------------------------------


def make_inputs(kind: str, root: Path) -> None:
    """Write the repository, question, idea or plan of a kind into a new folder."""
    root.mkdir(parents=True)
    if kind == "question":
        make_draws(root / "repo")
        (root / "ask.toml").write_text(TASK)
    elif kind == "ablation":
        make_tinyfit(root / "tinyfit")
    elif kind == "repository":
        test_repository_study.study(root)
    else:
        (root / "idea.json").write_text(IDEA.model_dump_json(by_alias=True))


def build_command(kind: str, name: str) -> list[str]:
    """Return the command that starts a study in the folder `name`."""
    if kind == "ablation":
        return [*ABLATE, name]
    start = ["run", "--runs", ".", "--name", name]
    if kind == "question":
        return [*start, "--code", "repo", "--task", "ask.toml"]
    if kind == "repository":
        words = ("--idea", "idea.json", "--plan", "plan.yaml", "--code", "fit", "--model", "offline")
        settings = {"search.num_seeds": 1, "search.max_seeds": 2}
        return [*start, *words, *test_repository_study.KNOWN, *_format_settings(settings)]
    settings = {key: value for key, value in SMALL_SETTINGS.items() if not key.startswith("models.")}
    return [*start, "--idea", "idea.json", *_format_settings(settings)]


def _format_settings(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def open_model(kind: str, notes: Path, settings: ModelSettings) -> Backend:
    """Return the model of a study, which notes each request."""
    if kind == "question":
        backend: Any = ScriptedModel(test_question.Author())
    else:
        backend = make_small_model() if kind == "paper" else open_backend(settings)
    answer = backend.answer

    async def note(request: ModelRequest) -> Reply:
        label = f"{backend.get_model_name(request.role)} at temperature {request.temperature:g}"
        _note(notes, f"request {hash_request(request, label)}")
        return await answer(request)

    backend.answer = note
    return backend


def _note(notes: Path, line: str) -> None:
    with notes.open("a") as file:
        file.write(f"{line}\n")


def run_process(kind: str, name: str) -> int:
    """Start or continue a study in the current folder, and note what it starts and requests. Returns the exit code."""
    notes = Path(f"{name}.started")
    run.open_backend = preflight.open_backend = partial(open_model, kind, notes)  # pyright: ignore[reportAttributeAccessIssue]
    run_cell, execute = CommandWorker.run_cell, cell_runner.execute

    async def note_command(self: CommandWorker, order: CellOrder, running: RunningCell) -> CellEnded:
        _note(notes, f"cell {self.job.name} {order.cell.name}")
        return await run_cell(self, order, running)

    async def note_kernel(kernel: Any, script: Any, *rest: Any, **more: Any) -> Any:
        if not script.cell.is_script:
            _note(notes, f"cell {script.job.name} {script.cell.name}")
        return await execute(kernel, script, *rest, **more)

    CommandWorker.run_cell, cell_runner.execute = note_command, note_kernel
    begun = is_run(Path(name)) and read_state(Path(name)).started is not None
    return run_command(["resume", name] if begun else build_command(kind, name))


# --- kills and comparison ---------------------------------------------------------------------------------------------


class KillMoment(NamedTuple):
    """A process is killed so many seconds after its start, or after its first event."""

    seconds: float
    is_after_event: bool


class KilledStudy:
    """One study under kills: what its processes did again, and what of its log was lost."""

    def __init__(self, kind: str, root: Path, name: str) -> None:
        self.kind, self.root, self.folder = kind, root, root / name
        self.kills = self.damaged = 0
        self.faults: list[str] = []

    def run_process(self, kill: KillMoment | None = None) -> int | None:
        """Let one process work to its end, or until it is killed; return its exit code, None if it was killed."""
        rows, intact, noted = self._read_log(), self._read_intact(), len(self._read_notes())
        with self.folder.with_suffix(".out").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.study_kills", self.kind, self.folder.name, "--process"],
                cwd=self.root,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            )
        code: int | None = None
        try:
            if kill is not None and kill.is_after_event:
                size = self._read_size()
                while self._read_size() == size and process.poll() is None:
                    time.sleep(0.02)
            code = process.wait(LIMIT_SECONDS if kill is None else kill.seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.kills += 1
        self._check(rows, intact, self._read_notes()[noted:])
        return code

    def damage_end(self, rng: Random) -> None:
        """Damage the end of the log as a power failure may: bytes after the last line, or the last line cut."""
        path = self.folder / "events.jsonl"
        rows = list(read_stored_rows(path)) if is_run(self.folder) else []
        if not rows:
            return
        self.damaged += 1
        end = rows[-1].offset + rows[-1].length
        if rng.random() < 0.5 and len(rows) > 1:
            os.truncate(path, rng.randrange(rows[-1].offset, end))
            if rng.random() < 0.5:
                with path.open("ab") as file:
                    file.write(bytes(end - path.stat().st_size))  # blocks that were never written
            return
        with path.open("ab") as file:
            file.write(rng.choice((b'{"crc":"00000000","at":17956', b"\0" * 4096, b"\xff" * 200)))

    def _check(self, before: list[Event], intact: bytes, notes: list[str]) -> None:
        after = self._read_log()
        if not self._read_intact().startswith(intact):
            self.faults.append("a committed line is lost")
        known = {f"{one.node} {one.run.cell.name}" for one in before if isinstance(one, CellExecuted)}
        started = [re.sub(r"/\d+ ", " ", line.removeprefix("cell ")) for line in notes if line.startswith("cell ")]
        self.faults += [f"committed and started again: {name}" for name in started if name in known]
        requests = Counter(line.removeprefix("request ") for line in notes if line.startswith("request "))
        answered = Counter(one.request_sha256 for one in after[len(before) :] if isinstance(one, CallAnswered))
        paid = Counter(one.request_sha256 for one in before if isinstance(one, CallAnswered))
        again = sum(max(0, number - answered[sha]) for sha, number in requests.items() if sha in paid)
        self.faults += [f"{again} answers that were committed were requested again"] if again else []

    def list_repeated(self) -> list[str]:
        """Return runs of cells, attempts and answers that are in the log twice."""
        events = self._read_log()
        names = [
            *(f"cell {one.run.id}" for one in events if isinstance(one, CellExecuted)),
            *(f"attempt {one.node}/{one.attempt.number}" for one in events if isinstance(one, AttemptExecuted)),
            *(f"answer {one.key}" for one in events if isinstance(one, CallAnswered)),
        ]
        return [name for name, number in Counter(names).items() if number > 1]

    def _read_size(self) -> int:
        path = self.folder / "events.jsonl"
        return path.stat().st_size if path.exists() else 0

    def _read_log(self) -> list[Event]:
        return [event for event, _ in read_events(self.folder / "events.jsonl")] if is_run(self.folder) else []

    def _read_intact(self) -> bytes:
        rows = list(read_stored_rows(self.folder / "events.jsonl")) if is_run(self.folder) else []
        return (self.folder / "events.jsonl").read_bytes()[: rows[-1].offset + rows[-1].length] if rows else b""

    def _read_notes(self) -> list[str]:
        notes = self.folder.with_suffix(".started")
        return notes.read_text().splitlines() if notes.exists() else []


def compare_results(folder: Path, kind: str) -> dict[str, object]:
    """Return everything that must be equal in two studies of a kind, by name, without times."""
    state = read_state(folder)
    if kind in ("paper", "repository"):
        return {
            "tree": comparable_tree(state),
            "claims": compute_paper_claims(state),
            "latex": comparable_latex(folder, usage=False),  # prompts show times
            "released": state.paper.released is not None and state.paper.released,
        }
    if kind == "ablation":
        found = json.loads((folder / "ablations.json").read_text())["ablations"]
        rows = [{key: one[key] for key in one if key not in ("node", "runs", "key")} for one in found["results"]]
        return {"rows": rows, "top": found["top"], "cells": len(state.cells)}
    names = ("answer.json", "report.md", "change.patch", "reproduce.sh")
    return {
        "cells": len(state.cells),
        **{name: re.sub(r"n\d{4}|[\d.]+ (s\b|seconds)", "#", (folder / name).read_text()) for name in names},
    }


def measure_kills(kind: str, root: Path, *, kills: int, seed: int) -> dict[str, Any]:
    """Kill studies of a kind until there are enough kills; return what was lost, repeated or different."""
    rng, done = Random(seed), list[dict[str, Any]]()
    make_inputs(kind, root)
    whole, began = KilledStudy(kind, root, "whole"), time.monotonic()
    assert whole.run_process() == 0, f"see {root}/whole.out"
    seconds, expected = time.monotonic() - began, compare_results(whole.folder, kind)
    active = read_state(whole.folder).active_seconds
    while (left := kills - sum(one["kills"] for one in done)) > 0:
        study, code = KilledStudy(kind, root, f"killed{len(done) + 1}"), None
        while code is None:
            early = KillMoment(rng.uniform(0.3, seconds - active), is_after_event=False)
            later = KillMoment(rng.uniform(0.0, min(active / 3, MAX_SECONDS)), is_after_event=True)
            code = study.run_process(None if study.kills >= left else early if rng.random() < EARLY else later)
            if code is None and rng.random() < 0.5:
                study.damage_end(rng)
        found = compare_results(study.folder, kind) if code == 0 else {}
        done.append(
            {
                "exit_code": code,
                "kills": study.kills,
                "damaged": study.damaged,
                "different": [name for name in expected if found.get(name) != expected[name]],
                "faults": study.faults,
                "repeated": study.list_repeated(),
                "audit": [str(one) for one in audit_run(study.folder).findings] if code == 0 else [],
            }
        )
        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
    return {"kind": kind, "seed": seed, "seconds": round(seconds, 1), "runs": done}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.process:
        return run_process(args.kind, str(args.folder))
    found = measure_kills(args.kind, args.folder.absolute(), kills=args.kills, seed=args.seed)
    print(json.dumps(found, indent=1))
    wrong = ("different", "faults", "repeated", "audit", "exit_code")
    return int(any(one[name] for one in found["runs"] for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
