"""Whether a run is one run: the demo twice, with two workers and with one; with another seed; and killed all along.

And the small study over HTTP, killed right after the first event of each kind, and five times at random moments.

And a study of cells, killed twenty times in each of three runs at random moments amid its cells, and twenty times while
it is tuned (`benchmarks.cell_kills`).

    python -m benchmarks.durability [--out FILE] [--runs DIR] [--small | --cells | --tuning]

Prints one JSON object. `kill -9` is sent once in each stage and once while the paper is written; after each the run is
resumed. Compared are trees, measurements, claims and the text of the paper; counted are attempts that ran twice and
answers that were asked for again. Exit code 1 when anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.cell_kills import IN_TUNING, celled_kills, cells_hold
from labwright.record.claims.means import paper_claims
from labwright.record.events import Event
from labwright.record.fold.state import RunState
from labwright.record.reading import RecordError, read_events, read_state
from tests.faults.killing import KINDS, Killed
from tests.faults.same import latex
from tests.faults.served import studying
from tests.models.openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[1]
PHASES = ("preliminary", "tuning", "agenda", "ablation", "reflect")
"""Where the run is killed; `reflect` stands for the paper being written."""

LONGEST = 1800.0
"""Seconds that one process gets."""


def command(verb: list[str]) -> subprocess.Popen[bytes]:
    """A `scientist` process in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "labwright", *verb], cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL
    )


def run(runs: Path, name: str, *, seed: int = 1, workers: int = 2) -> tuple[Path, float]:
    """A demo from beginning to end; its folder and seconds."""
    began = time.monotonic()
    process = command(
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
    process.wait(LONGEST)
    return runs / name, time.monotonic() - began


def killed(runs: Path, name: str) -> tuple[Path, list[dict[str, object]]]:
    """A demo that is killed once in each phase, some decisions into it, and resumed."""
    folder = runs / name
    process = command(
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
        before = _await(folder, phase, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        unfinished = len(before.decisions) - len(before.finished)
        kills.append({"phase": phase, "events": before.events, "unfinished": unfinished})
        process = command(["resume", str(folder)])
    process.wait(LONGEST)
    return folder, kills


def _await(folder: Path, phase: str, process: subprocess.Popen[bytes]) -> RunState:
    """Wait until the run is a few events into a phase."""
    entered: int | None = None
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.15)
        try:
            state = read_state(folder)
        except RecordError:
            continue
        if state.phase == phase:
            entered = state.events if entered is None else entered
            if phase == "reflect" or state.events >= entered + 9:
                return state
    raise SystemExit(f"the run never came into phase {phase!r} (exit code {process.returncode})")


def tree(state: RunState) -> list[object]:
    """The tree with all its numbers, without times."""
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
            [one.model_dump() for one in state.tests.get(n.id, ())],
        )
        for n in state.nodes.values()
    ]


def claims(state: RunState) -> list[object]:
    return [claim.model_dump() for claim in paper_claims(state)]


def twice(events: list[tuple[Event, float]]) -> dict[str, int]:
    """How many attempts and answers stand in the log more than once."""
    attempts = [(e.node, e.attempt.number) for e, _ in events if e.type == "executed"]
    answers = [str(e.key) for e, _ in events if e.type == "answered"]
    return {"attempts": len(attempts) - len(set(attempts)), "answers": len(answers) - len(set(answers))}


def small_killed(runs: Path, *, seed: int = 0) -> dict[str, Any]:
    """The small study of the tests: what was killed, and whether it ended as the run that nothing happened to."""
    noted, rng = runs / "noted", Random(seed)
    with OpenAIServer(studying(noted)) as server:
        began = time.monotonic()
        whole = Killed(runs / "whole", server, noted).to_its_end()
        seconds = time.monotonic() - began
        by_kind, left = Killed(runs / "by-kind", server, noted), list[str](KINDS)
        while (kind := by_kind.after(left)) is not None:
            left.remove(kind)
        at_random = Killed(runs / "at-random", server, noted)
        for _ in range(5):
            at_random.within(rng.uniform(2.0, 2.0 + seconds / 4))
        at_random.to_its_end()
    return {
        "seconds": round(seconds, 1),
        "kinds_not_met": left,
        "after_each_kind": _held(by_kind, whole),
        "at_random": _held(at_random, whole),
    }


def _held(killed: Killed, whole: RunState) -> dict[str, Any]:
    """A run that was killed, beside one that was not."""
    state = read_state(killed.run)
    return {
        "kills": killed.kills,
        "same_tree": tree(state) == tree(whole),
        "same_claims": claims(state) == claims(whole),
        "same_latex": latex(killed.run) == latex(killed.run.parent / "whole"),
        "asked_again": killed.asked_again(),
        "done_twice": killed.twice(),
        "damaged": killed.damaged,
    }


def small_holds(found: dict[str, Any]) -> bool:
    """Whether nothing was lost, repeated or damaged."""
    return all(
        one["same_tree"]
        and one["same_claims"]
        and one["same_latex"]
        and not one["asked_again"]
        and not one["done_twice"]
        and not one["damaged"]
        for one in (found["after_each_kind"], found["at_random"])
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true", help="only the small study")
    parser.add_argument("--runs", type=Path, default=Path(tempfile.mkdtemp(prefix="durability-")))
    parser.add_argument("--cells", action="store_true", help="only the study of cells")
    parser.add_argument("--tuning", action="store_true", help="only the study of cells while it is tuned")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which the study of cells is killed")
    given = parser.parse_args()
    if given.cells:
        celled = celled_kills(given.runs / "cells", seed=given.seed)
        return told(celled, given.out, cells_hold(celled))
    if given.tuning:
        tuned = celled_kills(given.runs / "tuning", kills=IN_TUNING, seed=given.seed, tuning=True)
        return told(tuned, given.out, cells_hold(tuned))
    small = small_killed(given.runs / "small")
    if given.small:
        return told(small, given.out, small_holds(small))
    celled = celled_kills(given.runs / "cells", seed=given.seed)
    tuned = celled_kills(given.runs / "tuning", kills=IN_TUNING, seed=given.seed, tuning=True)
    first, seconds = run(given.runs, "first")
    one, seconds_one = run(given.runs, "one-worker", workers=1)
    other, _ = run(given.runs, "other-seed", seed=2)
    broken, kills = killed(given.runs, "killed")
    reference, single, seeded, resumed = (read_state(folder) for folder in (first, one, other, broken))
    twice_done = twice(read_events(broken / "run.db"))
    report: dict[str, Any] = {
        "small": small,
        "cells": celled,
        "tuning": tuned,
        "nodes": len(reference.nodes),
        "answers": len(reference.answers),
        "seconds_ratio_one_to_two_workers": round(seconds_one / seconds, 3),
        "same_tree_one_worker": tree(single) == tree(reference),
        "same_claims_one_worker": claims(single) == claims(reference),
        "same_paper_text_one_worker": single.drafts[-1].draft == reference.drafts[-1].draft,
        "other_seed_differs": claims(seeded) != claims(reference),
        "kills": kills,
        "same_tree_killed": tree(resumed) == tree(reference),
        "same_claims_killed": claims(resumed) == claims(reference),
        "same_paper_text_killed": resumed.drafts[-1].draft == reference.drafts[-1].draft,
        "done_twice": twice_done,
        "exit_codes": [state.ended and state.ended.exit_code for state in (reference, single, seeded, resumed)],
    }
    held = all(value for key, value in report.items() if key.startswith(("same", "other")))
    return told(
        report,
        given.out,
        held and small_holds(small) and cells_hold(celled) and cells_hold(tuned) and not any(twice_done.values()),
    )


def told(report: dict[str, Any], out: Path | None, held: bool) -> int:
    """Print and write a report; the exit code."""
    text = json.dumps(report, indent=1)
    print(text)
    if out:
        out.write_text(text + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
