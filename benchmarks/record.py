"""Cost of a long record: a log of 1,000 nodes is written, opened for a resume, and weighed.

python -m benchmarks.record [--out FILE] [--nodes N] [--dir DIR]

Prints one JSON object. The nodes are those of a small real search, repeated with new numbers: decision, model
answers of the usual size, proposal, one attempt with twelve measurements, plots, reviews and verdict. Times are for
this machine and its disk; `--dir` chooses another one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from labwright.record.event_log import EventLog
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodePlotted,
    NodeProposed,
    PlotsReviewed,
)
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import CallKey, ExpandTree, TokenUsage, VisibleDecisions
from labwright.record.schema.figures import Figure, FigureFacts, FigureReview
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, NodeVerdict, format_node_id

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
    with closing(EventLog(folder / "events.jsonl")) as log:
        log.append(RunStarted(idea=idea, settings={}, seed=0, version="0", model="m"))
        for k in range(1, nodes + 1):
            for event in make_node_events(k):
                began = time.perf_counter()
                log.append(event)
                times.append(time.perf_counter() - began)
    size = (folder / "events.jsonl").stat().st_size
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
    with closing(EventLog(folder / "events.jsonl")) as log:
        ready = time.perf_counter() - began
        assert log.state.nodes
    script = (
        "import sys; from pathlib import Path; import labwright.agent.run; "
        "from labwright.record.event_log import EventLog; "
        "EventLog(Path(sys.argv[1])).close()"
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, str(folder / "events.jsonl")], check=True)
    return {"ready_seconds": round(ready, 3), "process_ready_seconds": round(time.perf_counter() - began, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure; default: the temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-", dir=given.dir) as folder:
        text = json.dumps(measure_log(Path(folder), given.nodes), indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
