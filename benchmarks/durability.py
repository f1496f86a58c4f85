"""Whether runs are reproducible and survive kills: the demo with two workers, with one, with another seed, and killed.

Also the small study over HTTP, killed after the first event of each kind and five times at random; and a study of
cells, killed twenty times in each of three runs while cells run, and twenty times during tuning
(`benchmarks.cell_kills`).

python -m benchmarks.durability [--out FILE] [--runs DIR] [--small | --cells | --tuning]

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
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.cell_kills import IN_TUNING, cells_are_intact, measure_kills
from benchmarks.report import make_parser, print_report
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.event_log import RecordError, read_events, read_state
from labwright.record.events import Event
from labwright.record.reducers.run_state import RunState
from tests.faults.http_study import make_study_script
from tests.faults.run_comparison import comparable_latex
from tests.faults.run_killer import KINDS, KilledRun
from tests.models.openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[1]
PHASES = ("preliminary", "tuning", "agenda", "ablation", "reflect")
"""Phases in which the run is killed; `reflect` is the writing of the paper."""

LIMIT_SECONDS = 1800.0
"""Time limit of one process in seconds."""


def start_scientist(verb: list[str]) -> subprocess.Popen[bytes]:
    """Start a `scientist` process in its own session."""
    return subprocess.Popen(
        [sys.executable, "-m", "labwright", *verb], cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL
    )


def run_demo(runs: Path, name: str, *, seed: int = 1, workers: int = 2) -> tuple[Path, float]:
    """Run a demo to its end; return its folder and seconds."""
    began = time.monotonic()
    process = start_scientist(
        [
            "run",
            "--idea",
            "examples/ideas/label_noise_calibration.json",
            "--config",
            "examples/demo.yaml",
            "--runs",
            str(runs),
            "--name",
            name,
            "--seed",
            str(seed),
            "--workers",
            str(workers),
        ]
    )
    process.wait(LIMIT_SECONDS)
    return runs / name, time.monotonic() - began


def run_killed(runs: Path, name: str) -> tuple[Path, list[dict[str, object]]]:
    """Run a demo that is killed once in each phase, after some decisions, and resumed."""
    folder = runs / name
    process = start_scientist(
        [
            "run",
            "--idea",
            "examples/ideas/label_noise_calibration.json",
            "--config",
            "examples/demo.yaml",
            "--runs",
            str(runs),
            "--name",
            name,
            "--seed",
            "1",
        ]
    )
    kills: list[dict[str, object]] = []
    for phase in PHASES:
        before = _wait_for_phase(folder, phase, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        unfinished = len(before.decisions) - len(before.finished_decisions)
        kills.append({"phase": phase, "events": before.event_count, "unfinished": unfinished})
        process = start_scientist(["resume", str(folder)])
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


def list_tree(state: RunState) -> list[object]:
    """Return the tree with all its numbers, without times."""
    return [
        (
            n.id,
            n.parent,
            n.stage,
            n.kind,
            n.seed,
            n.status,
            n.varies,
            n.source_sha256,
            [one.model_dump() for one in n.measurements],
            [one.model_dump() for one in state.search.test_measurements.get(n.id, ())],
        )
        for n in state.nodes.values()
    ]


def list_claims(state: RunState) -> list[object]:
    return [claim.model_dump() for claim in compute_paper_claims(state)]


def count_repeated(events: list[tuple[Event, float]]) -> dict[str, int]:
    """Count attempts and answers that are in the log more than once."""
    attempts = [(e.node, e.attempt.number) for e, _ in events if e.type == "executed"]
    answers = [str(e.key) for e, _ in events if e.type == "answered"]
    return {"attempts": len(attempts) - len(set(attempts)), "answers": len(answers) - len(set(answers))}


def measure_small_killed(runs: Path, *, seed: int = 0) -> dict[str, Any]:
    """Kill the small study of the tests; return the kills, and whether the result equals that of an undisturbed run."""
    noted, rng = runs / "noted", Random(seed)
    with OpenAIServer(make_study_script(noted)) as server:
        began = time.monotonic()
        whole = KilledRun(runs / "whole", server, noted).run_to_end()
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
        "after_each_kind": _compare_killed(by_kind, whole),
        "at_random": _compare_killed(at_random, whole),
    }


def _compare_killed(killed: KilledRun, whole: RunState) -> dict[str, Any]:
    """Compare a killed run with an undisturbed one."""
    state = read_state(killed.run)
    return {
        "kills": killed.kills,
        "same_tree": list_tree(state) == list_tree(whole),
        "same_claims": list_claims(state) == list_claims(whole),
        "same_latex": comparable_latex(killed.run) == comparable_latex(killed.run.parent / "whole"),
        "asked_again": killed.count_repeated_requests(),
        "done_twice": killed.find_repeated(),
        "damaged": killed.damaged,
        "outlived": len(killed.outlived),
        "left_running": killed.list_running(),
    }


def small_is_intact(found: dict[str, Any]) -> bool:
    """Return whether nothing was lost, repeated or damaged."""
    return all(
        one["same_tree"]
        and one["same_claims"]
        and one["same_latex"]
        and not one["asked_again"]
        and not one["done_twice"]
        and not one["damaged"]
        and not one["left_running"]
        for one in (found["after_each_kind"], found["at_random"])
    )


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="only the small study")
    parser.add_argument("--runs", type=Path, default=Path(tempfile.mkdtemp(prefix="durability-")))
    parser.add_argument("--cells", action="store_true", help="only the study of cells")
    parser.add_argument("--tuning", action="store_true", help="only the study of cells during tuning")
    parser.add_argument("--seed", type=int, default=0, help="for the moments at which the study of cells is killed")
    given = parser.parse_args()
    if given.cells:
        celled = measure_kills(given.runs / "cells", seed=given.seed)
        print_report(celled, given.out)
        return 0 if cells_are_intact(celled) else 1
    if given.tuning:
        tuned = measure_kills(given.runs / "tuning", kills=IN_TUNING, seed=given.seed, tuning=True)
        print_report(tuned, given.out)
        return 0 if cells_are_intact(tuned) else 1
    small = measure_small_killed(given.runs / "small")
    if given.small:
        print_report(small, given.out)
        return 0 if small_is_intact(small) else 1
    celled = measure_kills(given.runs / "cells", seed=given.seed)
    tuned = measure_kills(given.runs / "tuning", kills=IN_TUNING, seed=given.seed, tuning=True)
    first, seconds = run_demo(given.runs, "first")
    one, seconds_one = run_demo(given.runs, "one-worker", workers=1)
    other, _ = run_demo(given.runs, "other-seed", seed=2)
    broken, kills = run_killed(given.runs, "killed")
    reference, single, seeded, resumed = (read_state(folder) for folder in (first, one, other, broken))
    twice_done = count_repeated(read_events(broken / "events.jsonl"))
    report: dict[str, Any] = {
        "small": small,
        "cells": celled,
        "tuning": tuned,
        "nodes": len(reference.nodes),
        "answers": len(reference.calls.answers),
        "seconds_ratio_one_to_two_workers": round(seconds_one / seconds, 3),
        "same_tree_one_worker": list_tree(single) == list_tree(reference),
        "same_claims_one_worker": list_claims(single) == list_claims(reference),
        "same_paper_text_one_worker": single.paper.drafts[-1].draft == reference.paper.drafts[-1].draft,
        "other_seed_differs": list_claims(seeded) != list_claims(reference),
        "kills": kills,
        "same_tree_killed": list_tree(resumed) == list_tree(reference),
        "same_claims_killed": list_claims(resumed) == list_claims(reference),
        "same_paper_text_killed": resumed.paper.drafts[-1].draft == reference.paper.drafts[-1].draft,
        "done_twice": twice_done,
        "exit_codes": [
            state.process_end and state.process_end.exit_code for state in (reference, single, seeded, resumed)
        ],
    }
    passed = all(value for key, value in report.items() if key.startswith(("same", "other")))
    print_report(report, given.out)
    intact = small_is_intact(small) and cells_are_intact(celled) and cells_are_intact(tuned)
    return 0 if passed and intact and not any(twice_done.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
