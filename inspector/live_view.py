"""Terminal views of a running run: its latest nodes and events, redrawn in place, or one line per event.

The lines are built in the thread that reads events, so the thread that refreshes the terminal never accesses the state.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from labwright.inspector.event_text import describe_event
from labwright.inspector.render import format_bar, format_tree, print_lines
from labwright.inspector.safe_text import format_clock_time, format_dollars, format_duration, shorten, to_plain
from labwright.inspector.status import RunCondition, find_condition, format_pause
from labwright.inspector.tree import build_tree
from labwright.record.event_log import EventListener, EventLogTail
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.lock import find_owner
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.table import format_quantity

# Follow a run from another process: its events as they are written, the resulting state, and the process that owns
# it. It reads in the same way as `record.event_log`, so readers never block the writer. Limits: the end of a run is
# noticed late, since the process is checked every `PROCESS_CHECK_SECONDS` and must be absent twice (the next command
# may resume the run).

PROCESS_CHECK_SECONDS = 1.0
"""Seconds between checks for the process that is working on the run."""
MISSES_BEFORE_ENDED = 2
"""Number of consecutive checks without a process that make the run count as ended."""


class RunFollower:
    """One followed run. `seq` is the number of the last event applied to `state`."""

    def __init__(self, run: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self.state = RunState()
        self.seq = 0
        self.process: str | None = None
        self._tail = EventLogTail(run)
        self._clock = clock
        self._looked = -PROCESS_CHECK_SECONDS
        self._missed = 0
        self._seen = False

    def read_new(self) -> Iterator[tuple[int, Event, float]]:
        """Yield new events with number and time; `state` is as of the event that was just yielded.

        A replaced log is read from its beginning. Raises `RecordError`.
        """
        found = self._tail.read()
        if self._tail.restarted:
            self.state, self.seq = RunState(), 0
        for event, at in found:
            self.seq += 1
            apply_event(self.state, event, at)
            yield self.seq, event, at

    def is_running(self) -> bool:
        """Return whether a process was working on the run at the last check."""
        now = self._clock()
        if now - self._looked >= PROCESS_CHECK_SECONDS:
            self._looked = now
            self.process = find_process(self.run)
            self._missed = 0 if self.process is not None else self._missed + 1
        self._seen = self._seen or self.process is not None
        return self._missed < (MISSES_BEFORE_ENDED if self._seen else 1)

    @property
    def condition(self) -> RunCondition:
        return find_condition(self.state, self.process)


def find_process(run: Path) -> str | None:
    """Return the process of a run; None if there is none or the lock cannot be read."""
    try:
        return find_owner(run)
    except OSError:
        return None


LATEST_EVENTS_SHOWN = 3
"""Number of events shown under a live tree."""
POLL_SECONDS = 0.25
"""Seconds between reads of a log written by another process."""


class PlainView(nullcontext["PlainView"]):
    """Print one line per event except small steps, prefixed with the seconds of work."""

    def __init__(self, console: Console) -> None:
        super().__init__(self)
        self._console = console

    def __call__(self, event: Event, state: RunState) -> None:
        text = describe_event(event, state)
        if text is not None:
            line = Text(f"{format_duration(state.active_seconds):>7}  {text}")
            self._console.print(line, no_wrap=True, overflow="ignore", crop=False)


class LiveView(AbstractContextManager["LiveView"]):
    """Show progress, the end of the tree and the latest events, redrawn in place and erased at the end; with `screen`,
    on the alternate screen."""

    def __init__(self, console: Console, *, screen: bool = False) -> None:
        self._console = console
        self._latest: deque[str] = deque(maxlen=LATEST_EVENTS_SHOWN)
        self._live = Live(Text("starting ..."), console=console, transient=True, screen=screen)

    def __enter__(self) -> LiveView:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event, state: RunState) -> None:
        self.add_event(event, state)
        self.show_state(state)

    def add_event(self, event: Event, state: RunState) -> None:
        """Keep an event to show under the tree."""
        if (text := describe_event(event, state)) is not None:
            self._latest.append(text)

    def show_state(self, state: RunState) -> None:
        lines = format_live(state, self._latest, self._console.height - 1, ascii=is_ascii(self._console))
        self._live.update(Group(*lines))


def format_live(state: RunState, latest: Sequence[str], height: int, *, ascii: bool = False) -> list[Text]:
    """Format a run as at most `height` lines: title, progress, the reason for a pause, the end of the tree, and the
    latest events."""
    tree, total = build_tree(state), state.calls.total_usage
    limit, done = sum(one.node_limit or 0 for one in tree.stages), sum(one.searched_count for one in tree.stages)
    left = "" if state.time_limit is None else f" of {format_duration(state.time_limit)}"
    head = [
        Text(shorten(state.started.idea.title, 100) if state.started else "", style="bold"),
        Text(
            f"{state.phase}  {format_bar(done, limit)} {done}/{limit or '?'} nodes  "
            f"{format_duration(state.active_seconds)}{left}  {total.calls} calls, "
            f"{format_dollars(total.usd, total.unpriced)}  last event {format_clock_time(state.last_event_at)}",
            style="cyan",
        ),
    ]
    if paused := format_pause(state, state.last_event_at):
        head.append(Text(f"paused: {paused}", style="bold yellow"))
    tail = [Text(f"  {text}", style="dim") for text in latest]
    room = max(1, height - len(head) - len(tail))
    lines = [*head, *format_tree(tree, ascii=ascii)[-room:], *tail][:height]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def choose_view(console: Console) -> LiveView | PlainView:
    """Return a live view for terminals that support it; plain lines for pipes, `NO_COLOR` and `TERM=dumb`."""
    return LiveView(console) if _can_redraw(console) else PlainView(console)


def _can_redraw(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


@contextmanager
def showing_progress(work: str, console: Console) -> Generator[EventListener]:
    """Show on a console that can be redrawn what a command is doing, for how long, and how many answers of models it
    has. Yields the listener of events that counts the answers. Lines may be printed meanwhile by this console only."""
    began, answers = time.monotonic(), 0

    def count(event: Event, _: RunState) -> None:
        nonlocal answers
        answers += isinstance(event, CallAnswered)

    def draw() -> Text:
        took = format_duration(time.monotonic() - began)
        return Text(f"{to_plain(work)}: {format_quantity(answers, 'model call')} answered, {took}", style="dim")

    with Live(console=console, get_renderable=draw, transient=True) if _can_redraw(console) else nullcontext():
        yield count


def watch_run(run: Path, console: Console, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the tree of a run until it ends or Ctrl-C is pressed. Raises `RecordError`.

    If nothing can be redrawn, print the current tree, then one line per event.
    """
    follower, lines, goes_on, first = RunFollower(run), PlainView(console), True, True
    view = LiveView(console, screen=True) if _can_redraw(console) else None
    try:
        with view or nullcontext():
            while goes_on:
                goes_on = follower.is_running()
                for _, event, _ in follower.read_new():
                    if view is not None:
                        view.add_event(event, follower.state)
                    elif not first:
                        lines(event, follower.state)
                if view is not None:
                    view.show_state(follower.state)
                elif first and goes_on:
                    print_lines(console, format_tree(build_tree(follower.state), ascii=is_ascii(console)))
                first = False
                if goes_on:
                    console.file.flush()
                    sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        console.print(Text("stopped watching; the run was not affected"))
        return
    print_lines(console, format_tree(build_tree(follower.state), ascii=is_ascii(console)))
    console.print(Text(f"{follower.condition}; no process", style="bold"))


def is_ascii(console: Console) -> bool:
    """Return whether the terminal lacks Unicode."""
    return not console.encoding.lower().startswith("utf")
