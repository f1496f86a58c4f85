"""Cost of a long record: a log of 1,000 nodes is written, opened for a resume, and weighed. Then its durability:
writers of an event log, of exchanges and of a campaign are killed at random, the ends of their files are torn, and what
was acknowledged is compared with what is read back.

python -m benchmarks.record [--out FILE] [--nodes N] [--kills N] [--seed N] [--dir DIR]

Prints one JSON object. The nodes are those of a small real search, repeated with new numbers: decision, model
answers of the usual size, proposal, one attempt with twelve measurements, plots, reviews and verdict. Times are for
this machine and its disk; `--dir` chooses another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

from benchmarks.report import make_parser, print_report
from labwright.record.campaign import CAMPAIGN_LOG_FILE, CampaignLog, EntryQueued, read_campaign
from labwright.record.event_log import EventLog, EventLogTail, read_events
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, CommandReceived, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodePlotted,
    NodeProposed,
    PlotsReviewed,
)
from labwright.record.line_store import EVENTS_FILE, RecordError, format_row, read_stored_rows
from labwright.record.llm_calls import EXCHANGES_FILE, CallBatch, LLMCallStore
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import (
    CallKey,
    ChatMessage,
    Cost,
    ExpandTree,
    LLMExchange,
    LLMQuestion,
    TokenUsage,
    VisibleDecisions,
)
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, NodeVerdict, format_node_id
from labwright.record.schema.paper import Figure, FigureFacts, FigureReview

PROGRAM = "x = 1  # a line of an experiment\n" * 120
"""About 4 kB of code, as in an answer of the role `code`."""


def make_node_events(k: int) -> Iterator[Event]:
    """Yield the events of one good node."""
    name = format_node_id(k)
    yield DecisionMade(
        k=k,
        action=ExpandTree(stage="preliminary", kind="draft", parent=None, seed=k),
        seen=VisibleDecisions(through=k - 1),
    )
    yield _make_answer(
        k, "code", {"title": "t", "plan": "p" * 400, "files": [{"path": "experiment.py", "text": PROGRAM}]}
    )
    yield NodeProposed(node=name, decision=k, title="t", plan="p" * 400, varies=f"A={k}", source_sha256="0" * 64)
    measured = tuple(
        Measurement(
            name="log_loss",
            value=0.1 * k + i,
            condition=f"c{i % 4}",
            dataset="d",
            split="validation",
            seed=k,
            grade="scored",
        )
        for i in range(12)
    )
    yield AttemptExecuted(
        node=name,
        attempt=Attempt(
            number=1, seconds=1.0, measurements=measured, arrays={"loss.npy": "0" * 64}, stdout_tail="epoch 1\n" * 60
        ),
    )
    figure = Figure(name="loss.png", sha256="0" * 64, facts=FigureFacts())
    yield NodePlotted(node=name, n=1, figures=(figure,), seconds=1.0)
    yield _make_answer(k, "vision", {"reviews": [{"name": "loss.png", "readable": True, "description": "d" * 200}]})
    yield PlotsReviewed(node=name, n=1, reviews=(FigureReview(name="loss.png", readable=True, description="d" * 200),))
    yield _make_answer(k, "feedback", {"sound": True, "analysis": "a" * 400})
    yield NodeJudged(node=name, status="good", verdict=NodeVerdict(sound=True, analysis="a" * 400))


def _make_answer(k: int, role: str, answer: dict[str, object]) -> CallAnswered:
    return CallAnswered(
        key=CallKey(decision=k, attempt=0, role=role, ordinal=0),
        request_sha256="0" * 64,
        model="m",
        answer=answer,
        usage=TokenUsage(input_tokens=3000, output_tokens=1000),
        seconds=5.0,
        asked="m at temperature 0.5",
    )


def measure_log(folder: Path, nodes: int) -> dict[str, object]:
    """Write the log of so many nodes, and open it again in its own process."""
    idea = Idea.model_validate({"Name": "n", "Title": "t", "Experiments": ["one"]})
    times: list[float] = []
    with closing(EventLog(folder / EVENTS_FILE)) as log:
        log.append(RunStarted(idea=idea, settings={}, seed=0, version="0", model="m"))
        for k in range(1, nodes + 1):
            for event in make_node_events(k):
                began = time.perf_counter()
                log.append(event)
                times.append(time.perf_counter() - began)
    size = (folder / EVENTS_FILE).stat().st_size
    cut = statistics.quantiles(times, n=100)
    return {
        "nodes": nodes,
        "events": len(times) + 1,
        "append_ms_p50": round(1000 * cut[49], 3),
        "append_ms_p99": round(1000 * cut[98], 3),
        "bytes_a_node": round(size / nodes),
        **measure_opening(folder),
    }


def measure_opening(folder: Path) -> dict[str, object]:
    """Return the seconds to read the state of a log, and the same in a new process including imports."""
    began = time.perf_counter()
    with closing(EventLog(folder / EVENTS_FILE)) as log:
        ready = time.perf_counter() - began
        assert log.state.nodes
    script = (
        "import sys; from pathlib import Path; import labwright.agent.run; "
        "from labwright.record.event_log import EventLog; "
        "EventLog(Path(sys.argv[1])).close()"
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, str(folder / EVENTS_FILE)], check=True)
    return {"ready_seconds": round(ready, 3), "process_ready_seconds": round(time.perf_counter() - began, 2)}


# --- kills ------------------------------------------------------------------------------------------------------------


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
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the temporary one")
    given = parser.parse_args()
    report: dict[str, object] = {}
    if given.nodes:
        with tempfile.TemporaryDirectory(prefix="record-", dir=given.dir) as folder:
            report |= measure_log(Path(folder), given.nodes)
    if given.kills:
        with tempfile.TemporaryDirectory(prefix="record-", dir=given.dir) as folder:
            report |= measure_kills(Path(folder), given.kills, given.seed)
    print_report(report, given.out)
    return 1 if report.get("lost") or report.get("repeated") or report.get("misread_while_written") else 0


if __name__ == "__main__":
    sys.exit(main())
