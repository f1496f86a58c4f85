"""A program that is called as `scientist` is, and behaves as the first word of an idea's title says: a run in short.

done: answers six calls that cost an eighth of its budget each, and is released; dies: kills itself in its second call
and in its fourth, and goes on when resumed; away: its model is away each time; slow: as done, in a second. An answer
that is committed is not asked again, as in a real run.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from labwright.record.event_log import EventLog, read_state
from labwright.record.events.run_events import CallAnswered, CostReserved, ProcessEnded, RunResumed, RunStarted
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import CallKey, Cost, TokenUsage
from labwright.record.schema.idea import read_idea
from labwright.record.yaml_text import load_yaml

CALLS_PER_RUN = 6


def main(words: list[str]) -> int:
    command, given = words[0], dict(zip(words[1::2], words[2::2], strict=False))
    assignments = [after.partition("=") for before, after in itertools.pairwise(words) if before == "--set"]
    limits = {name: load_yaml(value) for name, _, value in assignments}  # agent.settings takes long to import
    first: RunStarted | RunResumed
    if command == "run":
        idea = read_idea(Path(given["--idea"]))
        folder = Path(given["--runs"]) / given["--name"]
        RunFolder(folder).create_folders()
        first = RunStarted(idea=idea, settings={}, seed=0, version="0", model="scripted")
    else:
        folder = Path(words[1])
        started = read_state(folder).started
        assert started is not None
        idea, first = started.idea, RunResumed(settings={}, model="scripted")
    told = folder.parent.parent / "told.jsonl"
    write_event(told, folder, command, limits)
    log = EventLog(folder / "events.jsonl")
    log.append(first)
    how = idea.title.split()[0]
    code = 130 if how == "away" else ask_unanswered(log, how, limits, told, folder)
    log.append(ProcessEnded(exit_code=code, reason="model is away" if code else ""))
    log.close()
    write_event(told, folder, "ended", {"code": code})
    return code


def ask_unanswered(log: EventLog, how: str, limits: dict[str, Any], told: Path, folder: Path) -> int:
    """Ask what was not answered before; each call sets aside what it may cost, as real ones do."""
    cap = float(limits.get("budget.usd", 1.0))
    for number in range(CALLS_PER_RUN):
        key = CallKey(decision=number, attempt=0, role="code", ordinal=0)
        if key in log.state.calls.answers:
            continue
        if log.state.calls.spent_cost.usd + cap / 8 > cap:
            return 3
        write_event(told, folder, "asked", {"number": number})
        log.append(CostReserved(k=number, name=str(key), spending=Cost(usd=cap / 8)))
        time.sleep(0.2 if how == "slow" else 0.02)
        if how == "dies" and number in (1, 3) and f"died{number}" not in (died := told.read_text()):
            write_event(told, folder, f"died{number}", {"before": len(died)})
            os.kill(os.getpid(), signal.SIGKILL)
        log.append(
            CallAnswered(
                key=key, request_sha256="", model="scripted", answer={}, usage=TokenUsage(usd=cap / 8), seconds=0.0
            )
        )
    return 0


def write_event(file: Path, folder: Path, what: str, more: dict[str, Any]) -> None:
    with open(file, "a") as out:
        out.write(json.dumps({"run": folder.name, "what": what, "at": time.time(), **more}) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
