"""Campaigns: elapsed time of parallel runs against sequential runs and the lower bound, and killed campaigns.

python -m benchmarks.campaigns --out FILE [--folder DIR] [--real]

`busy` runs are short: they wait for a model and then for a slot. With `--real`, three ideas are variants of the
offline study, one is a replay, one is broken, and one uses up its time limit; then the whole campaign is killed
three times. This takes minutes, so it is not part of `make bench`.
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

from labwright.agent.campaign import CampaignRunner, CampaignRuns, create_campaign, read_campaign_ideas
from labwright.agent.settings import compose_settings
from labwright.models.replay import extract_exchange, format_exchange
from labwright.record.campaign import RUNS_FOLDER, CampaignTerms, read_campaign
from labwright.record.event_log import read_events, read_state
from labwright.record.events.run_events import CallAnswered
from labwright.record.events.search_events import CellExecuted
from labwright.record.schema.idea import read_idea
from tests.agent import fake_scientist

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
SLOTS, BUSY_RUNS = 2, 6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaigns")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        found: dict[str, Any] = {"busy": measure_busy(folder / "busy")}
        if args.real:
            six = write_ideas(folder / "real")
            found |= {"real": measure_real(folder / "real", six), "killed": measure_killed(folder / "real", six)}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def make_idea(name: str, title: str) -> dict[str, Any]:
    return read_idea(IDEA, 0).model_dump(mode="json", by_alias=True) | {"Name": name, "Title": title}


# --- short runs -----------------------------------------------------------------------------------------------------


def measure_busy(place: Path) -> dict[str, Any]:
    """Measure six runs of six experiments: one second of model time, then half a second in one of two slots."""
    place.mkdir(parents=True)
    (place / "ideas.json").write_text(json.dumps([make_idea(f"r{number}", "busy run") for number in range(BUSY_RUNS)]))
    seconds: dict[int, float] = {}
    for parallel in (1, BUSY_RUNS):
        folder = place / str(parallel)
        create_campaign(
            list(read_campaign_ideas([place / "ideas.json"])),
            compose_settings(environment={}),
            CampaignTerms(parallel=parallel, slots=SLOTS),
            folder,
        )
        began = time.monotonic()
        CampaignRunner(
            folder,
            CampaignRuns(folder, (sys.executable, "-m", "tests.agent.fake_scientist")),
            poll_seconds=0.02,
            environment=os.environ | {"PYTHONPATH": str(ROOT)},
        ).run()
        seconds[parallel] = time.monotonic() - began
    steps = fake_scientist.CALLS_PER_RUN
    chain = steps * (fake_scientist.WRITES + fake_scientist.RUNS_FOR)
    bound = max(chain, BUSY_RUNS * steps * fake_scientist.RUNS_FOR / SLOTS)
    return {
        "runs": BUSY_RUNS,
        "slots": SLOTS,
        "one after the other over side by side": round(seconds[1] / seconds[BUSY_RUNS], 2),
        "side by side over the bound": round(seconds[BUSY_RUNS] / bound, 2),
        "seconds": {str(key): round(value, 1) for key, value in seconds.items()},
        "bound": round(bound, 1),
    }


# --- real runs ------------------------------------------------------------------------------------------------------


def write_ideas(place: Path) -> Path:
    """Write six ideas: a large one, three of the offline study, a replay, and a broken one."""
    folder = place / "ideas"
    folder.mkdir(parents=True)
    for number, name in enumerate(("a-large", "b-replay", "c-noise", "d-noise", "e-noise"), 1):
        (folder / f"{name}.json").write_text(
            json.dumps(make_idea(name, f"Label noise and calibration, study {number}"))
        )
        (folder / f"{name}.yaml").write_text(f"seed: {number}\n")
    (folder / "a-large.yaml").write_text(LARGE)
    (folder / "f-broken.json").write_text('{"Name": "broken"}')
    (place / "small.yaml").write_text(SMALL)
    # recorded within a campaign because its paper mentions it, and the writer is asked again if this is omitted
    run_scientist(
        "campaign",
        folder / "b-replay.json",
        folder / "c-noise.json",
        "--out",
        place / "recorded",
        "--config",
        place / "small.yaml",
    )
    events = [event for event, _ in read_events(place / "recorded" / RUNS_FOLDER / "b-replay" / "events.jsonl")]
    (place / "exchange.jsonl").write_text(format_exchange(extract_exchange(events)))
    (folder / "b-replay.yaml").write_text(f"seed: 2\nmodels: {{name: 'replay:{place / 'exchange.jsonl'}'}}\n")
    return folder


def run_scientist(*words: object) -> int:
    return subprocess.run(
        [sys.executable, "-m", "labwright", *map(str, words)], cwd=ROOT, check=False, capture_output=True
    ).returncode


def measure_real(place: Path, found: Path) -> dict[str, Any]:
    even = [found / f"{name}.json" for name in ("b-replay", "c-noise", "d-noise", "e-noise")]
    seconds: dict[int, float] = {}
    for parallel in (1, 4):
        began = time.monotonic()
        run_scientist(
            "campaign", *even, "--out", place / str(parallel), "--config", place / "small.yaml", "--parallel", parallel
        )
        seconds[parallel] = time.monotonic() - began
    states = [read_state(place / "4" / RUNS_FOLDER / one.stem) for one in even]
    bound = sum(state.experiment_seconds for state in states) / SLOTS
    began = time.monotonic()
    code = run_scientist(
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
        name: (one.status, one.end.code if one.end is not None else None, one.status_reason[:120])
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


def measure_killed(place: Path, found: Path, *, kills: int = 3, seed: int = 0) -> dict[str, Any]:
    """Run the six again and kill them: first the campaign process, then all processes, twice; resume each time."""
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
        while time.monotonic() < until and not is_replayed(folder, kill):
            time.sleep(0.2)
        time.sleep(rng.uniform(5, 20))
        process.kill()
        process.wait()
        for lock in (folder / "locks").iterdir() if kill else ():
            if (pid := lock.read_text()).isdigit() and Path(f"/proc/{pid}").exists():
                os.killpg(int(pid), signal.SIGKILL)
        time.sleep(1.0)
        begun.append(count_committed(folder))
        process = subprocess.Popen([*words, "resume", str(folder)], cwd=ROOT)
    code = process.wait()
    return {
        "kills": kills,
        "exit code": code,
        "twice": find_repeated(folder),
        "committed at each kill": begun,
        "ends": {
            name: (one.status, one.end.code if one.end is not None else None, one.status_reason[:120])
            for name, one in read_campaign(folder).entries.items()
        },
    }


def is_replayed(folder: Path, kill: int) -> bool:
    """Return whether the next kill may come: a replay starts again when resumed, so runs are only killed after it."""
    if not (folder / RUNS_FOLDER / "b-replay" / "events.jsonl").exists():
        return False
    return not kill or read_campaign(folder).entries["b-replay"].status == "done"


def count_committed(folder: Path) -> dict[str, int]:
    events = [event for run in (folder / RUNS_FOLDER).iterdir() for event, _ in read_events(run / "events.jsonl")]
    return {
        "answers": sum(isinstance(one, CallAnswered) for one in events),
        "cells": sum(isinstance(one, CellExecuted) for one in events),
    }


def find_repeated(folder: Path) -> dict[str, int]:
    """Count answers with one key, and cells of one node and key, that are in a record more than once."""
    answers: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for run in (folder / RUNS_FOLDER).iterdir():
        for event, _ in read_events(run / "events.jsonl"):
            if isinstance(event, CallAnswered):
                answers[f"{run.name} {event.key}"] += 1
            elif isinstance(event, CellExecuted):
                cells[f"{run.name} {event.node} {event.run.key}"] += 1
    return {
        "answers": sum(number > 1 for number in answers.values()),
        "cells": sum(number > 1 for number in cells.values()),
    }


if __name__ == "__main__":
    main()
