"""Whether runs are reproducible and survive kills: the demo with two workers, with one, with another seed, and killed.

Also the small study over HTTP, killed after the first event of each kind and five times at random; and a study of
cells, killed twenty times in each of three runs while cells run, and twenty times during tuning
(`benchmarks.cell_kills`).

python -m benchmarks.durability [--out FILE] [--runs DIR] [--only small|cells|tuning|demo]

Prints one JSON object. `kill -9` is sent once in each stage and once while the paper is written; the run is resumed
after each. Trees, measurements, claims and the text of the paper are compared; attempts that ran twice and answers
that were requested again are counted. Exits 1 if anything differs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.cell_kills import IN_TUNING, cells_are_intact, compare_killed, is_intact, measure_kills
from benchmarks.report import make_parser, print_report
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.event_log import RecordError, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.events.search_events import AttemptExecuted
from labwright.record.reducers.run_state import RunState
from tests.faults.http_study import make_study_script
from tests.faults.run_comparison import comparable_tree
from tests.faults.run_killer import KINDS, KilledRun
from tests.models.openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[1]
IDEA = "examples/ideas/label_noise_calibration.json"
PHASES = ("preliminary", "tuning", "agenda", "ablation", "reflect")
"""Phases in which the run is killed; `reflect` is the writing of the paper."""

LIMIT_SECONDS = 1800.0
"""Time limit of one process in seconds."""


def start_scientist(*words: str) -> subprocess.Popen[bytes]:
    """Start a `scientist` process in its own session."""
    return subprocess.Popen(
        [sys.executable, "-m", "labwright", *words], cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL
    )


def start_demo(runs: Path, name: str, *, seed: int = 1, workers: int = 2) -> subprocess.Popen[bytes]:
    words = f"run --idea {IDEA} --config examples/demo.yaml --name {name} --seed {seed} --workers {workers} --runs"
    return start_scientist(*words.split(), str(runs))


def run_demo(runs: Path, name: str, *, seed: int = 1, workers: int = 2) -> tuple[RunState, float]:
    """Run a demo to its end; return its state and seconds."""
    began = time.monotonic()
    start_demo(runs, name, seed=seed, workers=workers).wait(LIMIT_SECONDS)
    return read_state(runs / name), time.monotonic() - began


def run_killed(runs: Path, name: str) -> tuple[Path, list[dict[str, object]]]:
    """Run a demo that is killed once in each phase, after some decisions, and resumed."""
    folder, process = runs / name, start_demo(runs, name)
    kills: list[dict[str, object]] = []
    for phase in PHASES:
        before = _wait_for_phase(folder, phase, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        unfinished = len(before.decisions) - len(before.finished_decisions)
        kills.append({"phase": phase, "events": before.event_count, "unfinished": unfinished})
        process = start_scientist("resume", str(folder))
    process.wait(LIMIT_SECONDS)
    return folder, kills


def _wait_for_phase(folder: Path, phase: str, process: subprocess.Popen[bytes]) -> RunState:
    """Wait until the run is a few events into a phase."""
    entered: int | None = None
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.15)
        try:
            state = read_state(folder)
        except RecordError:
            continue
        if state.phase == phase:
            entered = state.event_count if entered is None else entered
            if phase == "reflect" or state.event_count >= entered + 9:
                return state
    raise SystemExit(f"the run never reached phase {phase!r} (exit code {process.returncode})")


def count_repeated(events: list[tuple[Event, float]]) -> dict[str, int]:
    """Count attempts and answers that are in the log more than once."""
    attempts = [(e.node, e.attempt.number) for e, _ in events if isinstance(e, AttemptExecuted)]
    answers = [str(e.key) for e, _ in events if isinstance(e, CallAnswered)]
    return {"attempts": len(attempts) - len(set(attempts)), "answers": len(answers) - len(set(answers))}


def measure_small_killed(runs: Path, *, seed: int = 0) -> dict[str, Any]:
    """Kill the small study of the tests; return the kills, and whether the result equals that of an undisturbed run."""
    noted, rng = runs / "noted", Random(seed)
    with OpenAIServer(make_study_script(noted)) as server:
        began = time.monotonic()
        whole = KilledRun(runs / "whole", server, noted)
        reference = whole.run_to_end()
        seconds = time.monotonic() - began
        by_kind, left = KilledRun(runs / "by-kind", server, noted), list[str](KINDS)
        while (kind := by_kind.kill_after(left)) is not None:
            left.remove(kind)
        at_random = KilledRun(runs / "at-random", server, noted)
        for _ in range(5):
            at_random.kill_within(rng.uniform(2.0, 2.0 + seconds / 4))
        at_random.run_to_end()
    return {
        "seconds": round(seconds, 1),
        "kinds_not_met": left,
        "after_each_kind": compare_killed(by_kind, whole, reference),
        "at_random": compare_killed(at_random, whole, reference),
    }


def measure_demos(runs: Path) -> dict[str, Any]:
    """Compare demos with two workers, with one, with another seed, and killed."""
    reference, seconds = run_demo(runs, "first")
    single, seconds_one = run_demo(runs, "one-worker", workers=1)
    seeded, _ = run_demo(runs, "other-seed", seed=2)
    folder, kills = run_killed(runs, "killed")
    resumed = read_state(folder)
    claims, draft = compute_paper_claims(reference), reference.paper.drafts[-1].draft
    return {
        "nodes": len(reference.nodes),
        "answers": len(reference.calls.answers),
        "seconds_ratio_one_to_two_workers": round(seconds_one / seconds, 3),
        "same_tree_one_worker": comparable_tree(single) == comparable_tree(reference),
        "same_claims_one_worker": compute_paper_claims(single) == claims,
        "same_paper_text_one_worker": single.paper.drafts[-1].draft == draft,
        "other_seed_differs": compute_paper_claims(seeded) != claims,
        "kills": kills,
        "same_tree_killed": comparable_tree(resumed) == comparable_tree(reference),
        "same_claims_killed": compute_paper_claims(resumed) == claims,
        "same_paper_text_killed": resumed.paper.drafts[-1].draft == draft,
        "done_twice": count_repeated(read_events(folder / "events.jsonl")),
        "exit_codes": [
            state.process_end and state.process_end.exit_code for state in (reference, single, seeded, resumed)
        ],
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--only", choices=("small", "cells", "tuning", "demo"))
    parser.add_argument("--runs", type=Path, default=Path(tempfile.mkdtemp(prefix="durability-")))
    parser.add_argument("--seed", type=int, default=0, help="for the moments at which the study of cells is killed")
    given = parser.parse_args()
    runs, seed = given.runs, given.seed
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "small": lambda: measure_small_killed(runs / "small"),
        "cells": lambda: measure_kills(runs / "cells", seed=seed),
        "tuning": lambda: measure_kills(runs / "tuning", kills=IN_TUNING, seed=seed, tuning=True),
        "demo": lambda: measure_demos(runs),
    }
    found = {name: measure() for name, measure in parts.items() if given.only in (None, name)}
    print_report(found, given.out)
    demo, small = found.get("demo", {}), found.get("small", {})
    passed = [
        *(value for key, value in demo.items() if key.startswith(("same", "other"))),
        not any(demo.get("done_twice", {}).values()),
        *(is_intact(small[name]) for name in ("after_each_kind", "at_random") if small),
        *(cells_are_intact(found[name]) for name in ("cells", "tuning") if name in found),
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
