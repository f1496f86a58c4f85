"""Durability of the record: writers of an event log, of exchanges and of a campaign are killed at random, the ends of
their files are torn, and what was acknowledged is compared with what is read back.

python -m benchmarks.record [--out FILE] [--kills N] [--seed N] [--dir DIR]

Prints one JSON object. `--dir` chooses another disk. `benchmarks.scale` measures the cost of a long record. The
time of single writes (99th percentile) and of a new process that opens a record are measured nowhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks.report import make_parser, print_report
from labwright.record.campaign import CAMPAIGN_LOG_FILE, CampaignLog, EntryQueued, read_campaign
from labwright.record.event_log import EventLog, EventLogTail, read_events
from labwright.record.events.run_events import CommandReceived
from labwright.record.line_store import EVENTS_FILE, RecordError, format_row, read_stored_rows
from labwright.record.llm_calls import EXCHANGES_FILE, CallBatch, LLMCallStore
from labwright.record.schema.decisions import ChatMessage, Cost, LLMExchange, LLMQuestion


async def _write_until_killed(folder: Path, pipe: int) -> None:
    """Continue the three records; the name of each committed entry is written to the pipe."""

    def acknowledge(name: str) -> None:
        os.write(pipe, f"{name}\n".encode())

    log, campaign = EventLog(folder / EVENTS_FILE), CampaignLog(folder)
    exchanges, most = LLMCallStore(folder / EXCHANGES_FILE), Cost(usd=1.0, tokens=10)
    while True:
        k = len(log.state.notes)
        log.append(CommandReceived(verb="note", text=f"{k} {'x' * (k * 37 % 6000)}"))
        acknowledge(f"note {k}")
        k = len(campaign.state.entries)
        campaign.append(EntryQueued(name=f"{k}"))
        acknowledge(f"entry {k}")
        first = exchanges.index.next_id

        async def ask(n: int) -> None:
            question = LLMQuestion(subject="s", messages=(ChatMessage(role="user", content=f"{n} {'y' * (n % 3000)}"),))
            key = f"{n:032x}-0"
            number = await exchanges.reserve("cell", key, question, most)
            acknowledge(f"asked {key}")
            answer = LLMExchange(id=key, subject="s", text=f"answer {n}")
            await exchanges.settle(number, most, answer, tokens=(1, 1), usd=0.5, seconds=0.1)
            acknowledge(f"answered {key}")

        await asyncio.gather(*(ask(n) for n in range(first, first + 5)))


def _tear(path: Path, random: Random) -> bool:
    """Append what a torn write may leave: a part of a line, or zeros in place of blocks of it.

    Return whether it was done: not if no process has opened the file since it was torn.
    """
    rows = list(read_stored_rows(path)) if path.exists() else []
    if not rows or path.stat().st_size > rows[-1].offset + rows[-1].length:
        return False
    line = bytearray(format_row(time.time(), json.dumps({"type": "torn", "text": "z" * random.randrange(9000)})))
    start = random.randrange(len(line))
    match random.randrange(3):
        case 0:
            del line[start:]
        case 1:
            line[start : start + 4096] = bytes(len(line[start : start + 4096]))
        case _:
            line[:start] = bytes(start)
    with open(path, "ab") as file:
        file.write(line)
    return True


def measure_kills(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Kill a writer at random moments; every second time, tear the ends of the files. Two readers follow the log.

    `lost`: acknowledged entries that are missing; `repeated`: entries that were recorded twice; `unacknowledged`:
    entries that were committed when the process was killed before it could say so.
    """
    random, acknowledged, torn, misread = Random(seed), set[str](), 0, 0
    tails: tuple[EventLogTail, ...] = (EventLogTail(folder), EventLogTail(folder))
    followed: tuple[list[str], ...] = ([], [])
    for kill in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            asyncio.run(_write_until_killed(folder, writing))
        os.close(writing)
        end = time.monotonic() + random.uniform(0.02, 0.25)
        while time.monotonic() < end:
            if (folder / EVENTS_FILE).exists():
                misread += _follow(tails, followed)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading) as pipe:
            acknowledged |= {line.strip() for line in pipe if line.endswith("\n")}
        if kill % 2:
            for name in (EVENTS_FILE, EXCHANGES_FILE, CAMPAIGN_LOG_FILE):
                torn += _tear(folder / name, random)
    misread += _follow(tails, followed)
    found = _list_entries(folder)
    notes = [name for name in found if name.startswith("note ")]
    return {
        "kills": kills,
        "torn_writes": torn,
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - set(found)),
        "repeated": len(found) - len(set(found)),
        "unacknowledged": len(set(found) - acknowledged),
        "misread_while_written": misread + sum(one != notes for one in followed),
    }


def _follow(tails: Sequence[EventLogTail], followed: Sequence[list[str]]) -> int:
    """Read on with each reader; return the number of readers that had to start again or found an error."""
    wrong = 0
    for tail, seen in zip(tails, followed, strict=True):
        try:
            new = [f"note {one.text.split()[0]}" for one, _ in tail.read() if isinstance(one, CommandReceived)]
        except RecordError:
            wrong += 1
            continue
        wrong += tail.restarted and bool(seen)
        seen[:] = new if tail.restarted else seen + new
    return wrong


def _list_entries(folder: Path) -> list[str]:
    """Return the name of every entry of the three records."""
    events = read_events(folder / EVENTS_FILE)
    batches = [CallBatch.model_validate_json(row.body) for row in read_stored_rows(folder / EXCHANGES_FILE)]
    asked = {one.id: one.exchange for batch in batches for one in batch.asked}
    return [
        *(f"note {event.text.split()[0]}" for event, _ in events if isinstance(event, CommandReceived)),
        *(f"entry {name}" for name in read_campaign(folder).entries),
        *(f"asked {one.exchange}" for batch in batches for one in batch.asked),
        *(f"answered {asked[one.id]}" for batch in batches for one in batch.answered),
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-", dir=given.dir) as folder:
        report = measure_kills(Path(folder), given.kills, given.seed)
    print_report(report, given.out)
    return 1 if report.get("lost") or report.get("repeated") or report.get("misread_while_written") else 0


if __name__ == "__main__":
    sys.exit(main())
