"""Campaigns: wall clock side by side against one after the other and the bound, and kills of the whole.

    python -m benchmarks.campaigns --out FILE [--folder DIR] [--real]

`busy` are runs in short that wait for a model and then for a slot. With `--real`, the offline study is varied in three
ideas, one idea is a replay, one is broken, and one meets its part of the time; then all is killed three times. Minutes
long, and so not part of `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from labwright.agent.campaign import Campaign, Runs, begin, ideas_in
from labwright.agent.settings import compose
from labwright.models.replay import exchange_of, written
from labwright.record.campaign import RUNS, Terms, read_campaign
from labwright.record.events.running import Answered
from labwright.record.events.searching import CellExecuted
from labwright.record.nouns.idea import read_idea
from labwright.record.reading import read_events, read_state
from tests.agent import scripted_run

ROOT = Path(__file__).parents[1]
IDEA = ROOT / "examples" / "ideas" / "label_noise_calibration.json"
SMALL = """
search: {order: ticket, num_workers: 2, num_drafts: 1, num_seeds: 2, max_seeds: 2, preliminary: {nodes: 2},
  tuning: {nodes: 1}, agenda: {nodes: 1, num_seeds: 2}, ablation: {nodes: 1, num_seeds: 2}, planned_ablations: 1}
sandbox: {timeout: 2m}
models: {name: offline}
literature: {sources: []}
paper: {missing_ablations: 0}
"""
LARGE = SMALL.replace("num_seeds: 2", "num_seeds: 10").replace("max_seeds: 2", "max_seeds: 60")
SLOTS, BUSY = 2, 6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaigns")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--real", action="store_true")
    asked = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        found: dict[str, Any] = {"busy": busy(folder / "busy")}
        if asked.real:
            six = ideas(folder / "real")
            found |= {"real": real(folder / "real", six), "killed": killed(folder / "real", six)}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def idea(name: str, title: str) -> dict[str, Any]:
    return read_idea(IDEA, 0).model_dump(mode="json", by_alias=True) | {"Name": name, "Title": title}


# --- runs in short --------------------------------------------------------------------------------------------------


def busy(place: Path) -> dict[str, Any]:
    """Six runs of six experiments each: a second of a model, then half a second of one of two slots."""
    place.mkdir(parents=True)
    (place / "ideas.json").write_text(json.dumps([idea(f"r{number}", "busy run") for number in range(BUSY)]))
    seconds: dict[int, float] = {}
    for parallel in (1, BUSY):
        folder = place / str(parallel)
        begin(
            list(ideas_in([place / "ideas.json"])),
            compose(environment={}),
            Terms(parallel=parallel, slots=SLOTS),
            folder,
        )
        began = time.monotonic()
        Campaign(
            folder,
            Runs(folder, (sys.executable, "-m", "tests.agent.scripted_run")),
            poll=0.02,
            environment=os.environ | {"PYTHONPATH": str(ROOT)},
        ).work()
        seconds[parallel] = time.monotonic() - began
    steps = scripted_run.CALLS
    chain = steps * (scripted_run.WRITES + scripted_run.RUNS_FOR)
    bound = max(chain, BUSY * steps * scripted_run.RUNS_FOR / SLOTS)
    return {
        "runs": BUSY,
        "slots": SLOTS,
        "one after the other over side by side": round(seconds[1] / seconds[BUSY], 2),
        "side by side over the bound": round(seconds[BUSY] / bound, 2),
        "seconds": {str(key): round(value, 1) for key, value in seconds.items()},
        "bound": round(bound, 1),
    }


# --- real runs ------------------------------------------------------------------------------------------------------


def ideas(place: Path) -> Path:
    """Six ideas: a large one, three of the offline study, a replay, and a broken one."""
    folder = place / "ideas"
    folder.mkdir(parents=True)
    for number, name in enumerate(("a-large", "b-replay", "c-noise", "d-noise", "e-noise"), 1):
        (folder / f"{name}.json").write_text(json.dumps(idea(name, f"Label noise and calibration, study {number}")))
        (folder / f"{name}.yaml").write_text(f"seed: {number}\n")
    (folder / "a-large.yaml").write_text(LARGE)
    (folder / "f-broken.json").write_text('{"Name": "broken"}')
    (place / "small.yaml").write_text(SMALL)
    # recorded in a campaign, since its paper says so, and a writer that is not told is asked again
    scientist(
        "campaign",
        folder / "b-replay.json",
        folder / "c-noise.json",
        "--out",
        place / "recorded",
        "--config",
        place / "small.yaml",
    )
    events = [event for event, _ in read_events(place / "recorded" / RUNS / "b-replay" / "run.db")]
    (place / "exchange.jsonl").write_text(written(exchange_of(events)))
    (folder / "b-replay.yaml").write_text(f"seed: 2\nmodels: {{name: 'replay:{place / 'exchange.jsonl'}'}}\n")
    return folder


def scientist(*words: object) -> int:
    return subprocess.run(
        [sys.executable, "-m", "labwright", *map(str, words)], cwd=ROOT, check=False, capture_output=True
    ).returncode


def real(place: Path, found: Path) -> dict[str, Any]:
    even = [found / f"{name}.json" for name in ("b-replay", "c-noise", "d-noise", "e-noise")]
    seconds: dict[int, float] = {}
    for parallel in (1, 4):
        began = time.monotonic()
        scientist(
            "campaign", *even, "--out", place / str(parallel), "--config", place / "small.yaml", "--parallel", parallel
        )
        seconds[parallel] = time.monotonic() - began
    states = [read_state(place / "4" / RUNS / one.stem) for one in even]
    bound = sum(state.seconds_of_code for state in states) / SLOTS
    began = time.monotonic()
    code = scientist(
        "campaign",
        found,
        "--out",
        place / "six",
        "--config",
        place / "small.yaml",
        "--parallel",
        2,
        "--time-limit",
        "5m",
    )
    ends = {
        name: (one.standing, one.end.code if one.end is not None else None, one.why[:120])
        for name, one in read_campaign(place / "six").entries.items()
    }
    return {
        "exit code": code,
        "ends": ends,
        "seconds of six": round(time.monotonic() - began, 1),
        "one after the other over side by side": round(seconds[1] / seconds[4], 2),
        "side by side over the bound": round(seconds[4] / bound, 2),
        "seconds": {str(key): round(value, 1) for key, value in seconds.items()},
        "bound": round(bound, 1),
    }


def killed(place: Path, found: Path, *, kills: int = 3, seed: int = 0) -> dict[str, Any]:
    """The six again: the process of the campaign is killed, then all of its processes, twice; each time taken up."""
    rng, folder = Random(seed), place / "killed"
    words = [sys.executable, "-m", "labwright"]
    begun: list[dict[str, int]] = []
    process = subprocess.Popen(
        [
            *words,
            "campaign",
            str(found),
            "--out",
            str(folder),
            "--config",
            str(place / "small.yaml"),
            "--parallel",
            "2",
            "--time-limit",
            "6m",
        ],
        cwd=ROOT,
    )
    for kill in range(kills):
        until = time.monotonic() + 120
        while time.monotonic() < until and not replayed(folder, kill):
            time.sleep(0.2)
        time.sleep(rng.uniform(5, 20))
        process.kill()
        process.wait()
        for lock in (folder / "locks").iterdir() if kill else ():
            if (pid := lock.read_text()).isdigit() and Path(f"/proc/{pid}").exists():
                os.killpg(int(pid), signal.SIGKILL)
        time.sleep(1.0)
        begun.append(committed(folder))
        process = subprocess.Popen([*words, "resume", str(folder)], cwd=ROOT)
    code = process.wait()
    return {
        "kills": kills,
        "exit code": code,
        "twice": twice(folder),
        "committed at each kill": begun,
        "ends": {
            name: (one.standing, one.end.code if one.end is not None else None, one.why[:120])
            for name, one in read_campaign(folder).entries.items()
        },
    }


def replayed(folder: Path, kill: int) -> bool:
    """Whether the next kill may come: one of runs only once the replay is over, which begins anew when resumed."""
    if not (folder / RUNS / "b-replay" / "run.db").exists():
        return False
    return not kill or read_campaign(folder).entries["b-replay"].standing == "done"


def committed(folder: Path) -> dict[str, int]:
    events = [event for run in (folder / RUNS).iterdir() for event, _ in read_events(run / "run.db")]
    return {
        "answers": sum(isinstance(one, Answered) for one in events),
        "cells": sum(isinstance(one, CellExecuted) for one in events),
    }


def twice(folder: Path) -> dict[str, int]:
    """Answers of one key, and cells of one node and key, that are in a record more than once."""
    answers: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for run in (folder / RUNS).iterdir():
        for event, _ in read_events(run / "run.db"):
            if isinstance(event, Answered):
                answers[f"{run.name} {event.key}"] += 1
            elif isinstance(event, CellExecuted):
                cells[f"{run.name} {event.node} {event.run.key}"] += 1
    return {
        "answers": sum(number > 1 for number in answers.values()),
        "cells": sum(number > 1 for number in cells.values()),
    }


if __name__ == "__main__":
    main()
