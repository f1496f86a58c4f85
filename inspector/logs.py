"""`scientist logs`: what happened in a run, a line for each event; of a node also small steps and its code's output.

While code runs the host keeps the beginning of its output beside the folder that the code writes into
(`RunFolder.live`); then `stdout.txt` in the sealed folder has it. No link is followed, and text is safe for a terminal.

What it does not guarantee: that output is shown the moment it is printed (it comes by lines, up to `LOOK` seconds
later), or that all of it is kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from labwright.inspector.cells import executed_text
from labwright.inspector.describe import describe
from labwright.inspector.follow import Follower
from labwright.inspector.text import cached, count, duration, plain, printable, short
from labwright.record.events import Event, running, searching
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, open_regular
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.nodes import node_id

LOOK = 0.25
MOST = 2_000_000
"""Bytes of an attempt's output that are read."""


class Entry(Frozen):
    """An event as a line. `at` is seconds since the epoch; `text` is None for a small step."""

    seq: int
    at: float
    type: str
    node: str | None
    text: str | None


class Printed(NamedTuple):
    """A line that the code of an attempt printed."""

    node: str
    attempt: int
    text: str


Line = Entry | Printed


def logs(
    run: Path, *, node: str | None = None, every: bool = False, follow: bool = False, last: int | None = None
) -> Iterator[Line | None]:
    """The lines of a run, or of one node; `every` event, or all but small steps.

    With `last` only so many of those that are there already. With `follow` they go on until no process works on the
    run; None says that all there is now was given. Raises `RecordError`.
    """
    reader = _Reader(Follower(run), node, every=every)
    yield from deque(reader.new(), maxlen=last)
    yield None
    while follow and reader.follower.goes_on():
        time.sleep(LOOK)
        yield from reader.new()
        yield None
    if follow:
        yield from reader.new()


class _Reader:
    """Events, with the output of one node's attempts where they belong."""

    def __init__(self, follower: Follower, node: str | None, *, every: bool) -> None:
        self.follower, self._node, self._every = follower, node, every
        self._output: Output | None = None

    def new(self) -> Iterator[Line]:
        for seq, event, at in self.follower.new():
            state = self.follower.state
            node = node_of(event, state)
            if self._node is not None and node != self._node:
                continue
            if isinstance(event, searching.Executed):
                yield from self._printed(event.attempt.number, over=True)
            text = describe(event, state)
            if text is not None or self._every or self._node is not None:
                yield Entry(seq=seq, at=at, type=event.type, node=node, text=text or small_step(event, state))
        node = self.follower.state.nodes.get(self._node or "")
        if node is not None and not node.finished:
            yield from self._printed(len(node.attempts) + 1, over=False)

    def _printed(self, number: int, *, over: bool) -> Iterator[Printed]:
        if self._node is None:
            return
        output = self._output or Output(self.follower.run, self._node, number)
        self._output = None if over else output
        for text in output.rest() if over else output.lines():
            yield Printed(self._node, number, text)


def node_of(event: Event, state: RunState) -> str | None:
    """The node that an event is about, if it is about one."""
    match event:
        case searching.Decided(k=k) | searching.WorkDone(k=k):
            pass
        case running.Answered():
            k = event.key.decision
        case running.Commanded():
            return event.target if event.verb in ("kill", "mark") else None
        case _:
            node = getattr(event, "node", None)
            return node if isinstance(node, str) else None
    decided = state.decisions.get(k)
    return node_id(k) if decided is not None and isinstance(decided.action, Expand) else None


def small_step(event: Event, state: RunState) -> str | None:
    """A step of a node that is shown only to whoever asks for that node."""
    match event:
        case searching.Proposed():
            return f"{event.node} is written: {short(event.varies or event.title, 80)}"
        case searching.Stepped():
            return f"{event.node} {event.step}"
        case searching.CellExecuted():
            return executed_text(event, state)
        case running.Answered(usage=usage):
            without = f", asked without {' and '.join(event.left_out)}" if event.left_out else ""
            return (
                f"{plain(event.model)} answered as {event.key.role}: {count(usage.input_tokens)} tokens in"
                f"{cached(usage.cached_tokens, usage.cached_usd or 0.0)}, {count(usage.output_tokens)} out, "
                f"{duration(event.seconds)}{without}"
            )
        case searching.Plotted():
            return f"{event.node} drew {len(event.figures)} figures"
        case searching.Reviewed():
            return f"{event.node} figures accepted" + ("" if event.looked else " by the lint alone")
        case searching.Suspected():
            return f"{event.node} checked: {short('; '.join(map(str, event.findings)), 160)}"
        case searching.CodeRead():
            return f"{event.node}: its code was read by {event.reader}: {event.verdict}, {len(event.doubts)} doubts"
        case searching.Probed():
            return f"{event.node} probed ({event.probe}): {event.outcome}: {short(event.why, 100)}"
        case _:
            return None


# --- what code prints -----------------------------------------------------------------------------------------------


class Output:
    """The output of one attempt, read on from where it was left, also while it runs."""

    def __init__(self, run: Path, node: str, number: int) -> None:
        folder = RunFolder(run)
        self._live, self._sealed = folder.live(node, number), folder.attempt(node, number) / "stdout.txt"
        self._read = 0

    def lines(self) -> list[str]:
        """Whole lines that are new; of a progress bar its last state."""
        new = self._from(self._live)
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return _shown(whole)

    def rest(self) -> list[str]:
        """What was not given yet, once the attempt is over."""
        return _shown(self._from(self._sealed))

    def _from(self, path: Path) -> bytes:
        """What was not read of a regular file; empty where there is none."""
        try:
            with open(open_regular(path), "rb") as file:
                file.seek(self._read)
                return file.read(max(0, MOST - self._read))
        except OSError:
            return b""


def _shown(text: bytes) -> list[str]:
    lines = text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []
    return [printable(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in lines]
