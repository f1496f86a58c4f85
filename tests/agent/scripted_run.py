"""A program that is called as `scientist` is, and behaves as the first word of an idea's title says: a run in short.

done: spends three quarters of its budget and is released; dies: is killed by itself, twice, and then done; away: its
model is away each time; slow: works two seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from record.events.running import Ended, Resumed, Started
from record.folder import RunFolder
from record.log import EventLog
from record.nouns.idea import Idea, read_idea
from record.reading import read_state


def main(words: list[str]) -> int:
    command, given = words[0], dict(zip(words[1::2], words[2::2], strict=False))
    limits = dict(word.split("=", 1) for word in words if "=" in word)
    if command == "run":
        idea = read_idea(Path(given["--idea"]))
        folder = Path(given["--runs"]) / given["--name"]
        RunFolder(folder).create()
        first: Started | Resumed = Started(idea=idea, settings={}, seed=0, version="0", model="scripted")
    else:
        folder = Path(words[1])
        started = read_state(folder).started
        assert started is not None
        idea, first = started.idea, Resumed(settings={}, model="scripted")
    with open(folder.parent.parent / "begun.jsonl", "a") as file:
        file.write(json.dumps([folder.name, command, time.time(), limits]) + "\n")
    log = EventLog(folder / "run.db")
    log.append(first)
    code = ended_with(idea, folder)
    log.append(Ended(exit_code=code, reason="" if code == 0 else "the model is away"))
    log.close()
    with open(folder.parent.parent / "ended.jsonl", "a") as file:
        file.write(json.dumps([folder.name, time.time()]) + "\n")
    return code


def ended_with(idea: Idea, folder: Path) -> int:
    how = idea.title.split()[0]
    times = sum(1 for line in (folder.parent.parent / "begun.jsonl").read_text().splitlines()
                if json.loads(line)[0] == folder.name)
    if how == "dies" and times < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(2.0 if how == "slow" else 0.2)
    return 130 if how == "away" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
