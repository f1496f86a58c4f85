"""`scientist logs`: the events of a run, one line each; for a single node also small steps and its code's output.

While code runs, the host saves its output outside the folder that the code can write (`RunFolder.live`); afterwards,
the output is in `stdout.txt` in the sealed folder. Links are not followed, and text is safe for a terminal.

Limits: output is shown by lines, up to `POLL_SECONDS` late, and very long output is truncated.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from labwright.inspector.event_text import describe_event, format_execution
from labwright.inspector.findings import format_tool_use
from labwright.inspector.live_view import RunFollower
from labwright.inspector.safe_text import format_cached, format_count, format_duration, shorten, to_plain, to_printable
from labwright.record.events import Event, run_events, search_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import format_node_id
from labwright.record.table import format_quantity
from labwright.record.untrusted_files import open_plain_file

POLL_SECONDS = 0.25
MAX_OUTPUT_BYTES = 2_000_000
"""Maximum bytes of an attempt's output that are read."""


class LogEvent(FrozenModel):
    """An event as a line. `at` is seconds since the epoch; `text` is None for a small step."""

    seq: int
    at: float
    type: str
    node: str | None
    text: str | None


class PrintedLine(FrozenModel):
    """A line printed by the code of an attempt."""

    type: Literal["output"] = "output"
    node: str
    attempt: int
    text: str


LogLine = LogEvent | PrintedLine


def read_logs(
    run: Path, *, node: str | None = None, every: bool = False, follow: bool = False, last: int | None = None
) -> Iterator[LogLine | None]:
    """Yield the lines of a run or of one node; with `every`, all events, otherwise all except small steps.

    `last` limits the existing lines. With `follow`, continue until no process is working on the run. None means that
    all current lines have been yielded. Raises `RecordError`.
    """
    reader = _LogTail(RunFollower(run), node, every=every)
    yield from deque(reader.read_new(), maxlen=last)
    yield None
    while follow and reader.follower.is_running():
        time.sleep(POLL_SECONDS)
        yield from reader.read_new()
        yield None
    if follow:
        yield from reader.read_new()


class _LogTail:
    """New events, interleaved with the output of one node's attempts."""

    def __init__(self, follower: RunFollower, node: str | None, *, every: bool) -> None:
        self.follower, self._node, self._every = follower, node, every
        self._output: AttemptOutput | None = None

    def read_new(self) -> Iterator[LogLine]:
        for seq, event, at in self.follower.read_new():
            state = self.follower.state
            node = find_node(event, state)
            if self._node is not None and node != self._node:
                continue
            if isinstance(event, search_events.AttemptExecuted):
                yield from self._read_output(event.attempt.number, over=True)
            text = describe_event(event, state)
            if text is not None or self._every or self._node is not None:
                yield LogEvent(
                    seq=seq, at=at, type=event.type, node=node, text=text or describe_small_step(event, state)
                )
        node = self.follower.state.nodes.get(self._node or "")
        if node is not None and not node.is_finished:
            yield from self._read_output(len(node.attempts) + 1, over=False)

    def _read_output(self, number: int, *, over: bool) -> Iterator[PrintedLine]:
        if self._node is None:
            return
        output = self._output or AttemptOutput(self.follower.run, self._node, number)
        self._output = None if over else output
        for text in output.read_rest() if over else output.read_lines():
            yield PrintedLine(node=self._node, attempt=number, text=text)


def find_node(event: Event, state: RunState) -> str | None:
    """Return the node that an event concerns, if any."""
    match event:
        case search_events.DecisionMade(k=k) | search_events.TaskDone(k=k):
            pass
        case run_events.CallAnswered() | run_events.ToolUsed():
            k = event.key.decision
        case run_events.CommandReceived():
            return event.target if event.verb in ("kill", "mark") else None
        case _:
            node = getattr(event, "node", None)
            return node if isinstance(node, str) else None
    decided = state.decisions.get(k)
    return format_node_id(k) if decided is not None and isinstance(decided.action, ExpandTree) else None


def describe_small_step(event: Event, state: RunState) -> str | None:
    """Describe a step that is only shown when logging a single node."""
    match event:
        case search_events.NodeProposed():
            return f"{event.node} proposed: {shorten(event.varies or event.title, 80)}"
        case search_events.NodeStepEntered():
            return f"{event.node} {event.step}"
        case search_events.CellExecuted():
            return format_execution(event, state)
        case run_events.CallAnswered(usage=usage):
            without = f", without the parameters {', '.join(event.left_out)}" if event.left_out else ""
            return (
                f"{to_plain(event.model)} answered as {event.key.role}: {format_count(usage.input_tokens)} tokens in"
                f"{format_cached(usage.cached_tokens, usage.cached_usd or 0.0)}, "
                f"{format_count(usage.output_tokens)} out, "
                f"{format_duration(event.seconds)}{without}"
            )
        case run_events.ToolUsed():
            return format_tool_use(event)
        case search_events.NodePlotted():
            return f"{event.node} drew {format_quantity(len(event.figures), 'figure')}"
        case search_events.PlotsReviewed():
            return f"{event.node} figures accepted" + ("" if event.looked else " by lint only")
        case search_events.NodeSuspected():
            return f"{event.node} checked: {shorten('; '.join(map(str, event.findings)), 160)}"
        case search_events.CodeRead():
            return f"{event.node}: code reviewed by {event.reader}: {event.verdict}, {len(event.doubts)} doubts"
        case search_events.NodeProbed():
            return f"{event.node} probed ({event.probe}): {event.outcome}: {shorten(event.why, 100)}"
        case _:
            return None


# --- output of code ---------------------------------------------------------------------------------------------------


class AttemptOutput:
    """Reads an attempt's output incrementally, even while the attempt is running."""

    def __init__(self, run: Path, node: str, number: int) -> None:
        folder = RunFolder(run)
        self._live = folder.get_live_output_path(node, number)
        self._sealed = folder.get_attempt_path(node, number) / "stdout.txt"
        self._read = 0

    def read_lines(self) -> list[str]:
        """Return new complete lines; for a progress bar, only its last state."""
        new = self._read_on(self._live)
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return _split_lines(whole)

    def read_rest(self) -> list[str]:
        """Return the unread output of a finished attempt."""
        return _split_lines(self._read_on(self._sealed))

    def _read_on(self, path: Path) -> bytes:
        """Return the unread bytes of a regular file; empty if there is none."""
        try:
            with open(open_plain_file(path), "rb") as file:
                file.seek(self._read)
                return file.read(max(0, MAX_OUTPUT_BYTES - self._read))
        except OSError:
            return b""


def _split_lines(text: bytes) -> list[str]:
    lines = text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []
    return [to_printable(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in lines]
