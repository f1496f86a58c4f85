"""Terminal views of a running run: a tree redrawn in place, or plain lines if that is not possible.

`scientist run` shows the current stage, `scientist tree --watch` all stages on the alternate screen, so that resizing
leaves no remnants. Frames are built in the thread that reads events, so the thread that refreshes the terminal never
accesses the state.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from labwright.inspector.event_text import describe_event
from labwright.inspector.render import format_bar, format_metric, format_node, format_stage, format_tree, print_lines
from labwright.inspector.safe_text import (
    format_cached,
    format_count,
    format_countdown,
    format_dollars,
    format_duration,
    shorten,
    to_plain,
)
from labwright.inspector.status import RunCondition, find_condition, format_pause
from labwright.inspector.tree import NodeRow, RunTree, StageRows, build_tree
from labwright.record.event_log import EventLogTail
from labwright.record.events import Event
from labwright.record.events.run_events import ProcessEnded, ProviderOutage
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
MIN_ROOMY_HEIGHT = 14
"""Minimum terminal height, in lines, for showing events and the description of the metric."""
SHORT_BAR_WIDTH = 10
"""Width of a bar in characters, so that three facts fit into a line of 80 characters."""
POLL_SECONDS = 0.25
"""Seconds between reads of a log written by another process."""


class PlainView(AbstractContextManager["PlainView"]):
    """Print one line per event except small steps, prefixed with the seconds of work."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, event: Event, state: RunState) -> None:
        text = describe_event(event, state)
        if text is not None:
            self._console.print(
                Text(f"{format_duration(state.active_seconds):>7}  {text}"), no_wrap=True, overflow="ignore", crop=False
            )


class LiveView(AbstractContextManager["LiveView"]):
    """Show the tree of the current stage, or all stages, with progress, cost and time; redrawn in place, erased at the
    end."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.time, whole: bool = False) -> None:
        self._console, self._clock, self._whole = console, clock, whole
        self._latest: deque[str] = deque(maxlen=LATEST_EVENTS_SHOWN)
        self._frame: LiveFrame | None = None
        self._working = True
        self._start()

    def _start(self) -> None:
        self._width = self._console.width
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True, screen=self._whole)

    def __enter__(self) -> LiveView:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event, state: RunState) -> None:
        self.add_event(event, state)
        self.show_state(state, working=not isinstance(event, ProcessEnded))
        if self._live.is_started and self._console.width < self._width and not self._whole:
            # clear the screen, since a terminal that became narrower has wrapped the existing lines
            self._live.stop()
            self._console.clear()
            self._start()
            self._live.start(refresh=True)

    def add_event(self, event: Event, state: RunState) -> None:
        """Keep an event to show under the tree."""
        text = describe_event(event, state)
        if text is not None:
            self._latest.append(text)

    def show_state(self, state: RunState, *, working: bool) -> None:
        """Draw this state from now on; its clock advances while a process is `working`."""
        self._frame, self._working = build_frame(state, tuple(self._latest)), working

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        frame, now = self._frame, self._clock()
        if frame is None:
            yield Text("starting ...", style="dim")
            return
        elapsed = frame.active_seconds + (max(0.0, now - frame.taken_at) if self._working and not frame.paused else 0.0)
        height = (options.height or console.height) if self._whole else max(8, options.max_height) - 1
        yield from format_frame(frame, elapsed, height, now=now, ascii=is_ascii(console), show_all=self._whole)


def choose_view(console: Console, *, clock: Callable[[], float] = time.time) -> LiveView | PlainView:
    """Return a live view for terminals that support it; plain lines for pipes, `NO_COLOR` and `TERM=dumb`."""
    return LiveView(console, clock=clock) if _can_redraw(console) else PlainView(console)


def _can_redraw(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


def watch_run(run: Path, console: Console, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the tree of a run until it ends or Ctrl-C is pressed. Raises `RecordError`.

    If nothing can be redrawn, print the current tree, then one line per event.
    """
    follower, lines, goes_on, first = RunFollower(run), PlainView(console), True, True
    view = LiveView(console, whole=True) if _can_redraw(console) else None
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
                    view.show_state(follower.state, working=follower.process is not None)
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


# --- frames ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveFrame:
    """Content of a live view, taken from the state at one event."""

    title: str
    phase: str
    progress: str
    model: str
    tree: RunTree
    calls: str
    active_seconds: float
    """Seconds of work up to `taken_at`."""
    taken_at: float
    latest: tuple[str, ...]
    outage: ProviderOutage | None = None
    """Current provider outage, if any."""
    paused: str = ""
    """Who paused the run, or the gate at which it waits; no time is counted meanwhile. Empty: it is not paused."""
    time_limit: float | None = None
    """Time limit of the run in seconds."""

    @property
    def stage(self) -> StageRows:
        """The stage being searched, otherwise the last stage with nodes."""
        current = [stage for stage in self.tree.stages if stage.stage == self.phase]
        return (current or [stage for stage in self.tree.stages if stage.nodes][-1:] or [self.tree.stages[0]])[0]


def build_frame(state: RunState, latest: tuple[str, ...] = ()) -> LiveFrame:
    """Build the frame of a state."""
    started, total, tree = state.started, state.calls.total_usage, build_tree(state)
    calls = (
        f"{format_quantity(total.calls, 'call')}  {format_count(total.input_tokens)} tokens in"
        f"{format_cached(total.cached_tokens, total.cached_usd)}, {format_count(total.output_tokens)} out  "
        f"{format_dollars(total.usd, total.unpriced)}"
    )
    limit = sum(stage.node_limit or 0 for stage in tree.stages)
    return LiveFrame(
        title=to_plain(started.idea.title) if started else "",
        phase=state.phase,
        progress=f"{sum(stage.searched_count for stage in tree.stages)}/{limit or '?'} nodes",
        model=f"{to_plain(started.model)}, seed {started.seed}" if started else "",
        tree=tree,
        calls=calls,
        active_seconds=state.active_seconds,
        taken_at=state.last_event_at,
        latest=latest,
        outage=state.outage,
        paused=format_pause(state, state.last_event_at) if state.is_paused else "",
        time_limit=state.time_limit,
    )


def _format_bars(frame: LiveFrame, elapsed: float) -> str:
    """Format bars of the stage's nodes and of all cells, and the remaining time; empty if nothing is known."""
    stage, counts = frame.stage, [row.cells for each in frame.tree.stages for row in each.nodes if row.cells]
    found: list[str] = []
    for name, done, owed in (
        (stage.stage, stage.searched_count, stage.node_limit or 0),
        ("cells", sum(one.done_count for one in counts), sum(one.owed for one in counts)),
    ):
        found += [f"{format_bar(done, owed, SHORT_BAR_WIDTH)} {name} {done}/{owed}"] if owed else []
    found += (
        [f"{format_duration(max(0.0, frame.time_limit - elapsed))} of {format_duration(frame.time_limit)} left"]
        if frame.time_limit
        else []
    )
    return "  ".join(found)


def format_frame(
    frame: LiveFrame, elapsed: float, height: int, *, now: float = 0.0, ascii: bool = False, show_all: bool = False
) -> list[Text]:
    """Format a frame as at most `height` lines: the current stage, or all stages with `show_all`. Hidden nodes are
    counted.

    Running nodes come first, then the best ones, those of the current stage, and the latest.
    """
    roomy, current = height >= MIN_ROOMY_HEIGHT, frame.stage
    head = list(_format_head(frame, elapsed, now, roomy=roomy))
    tail: list[Text] = []
    if roomy:
        tail += [
            Text(f"  {stage.stage} pending: {', '.join(stage.pending)}", style="cyan")
            for stage in frame.tree.stages
            if stage.pending and stage.stage != current.stage
        ]
        tail += [Text(f"  {text}", style="dim") for text in frame.latest]
    tail.append(Text(frame.calls))
    stages = [stage for stage in frame.tree.stages if stage.nodes and (show_all or stage is current)]
    room = max(1, height - len(head) - len(tail))
    if len(stages) * 2 > room:
        stages = [stage for stage in stages if stage is current]
    kept = choose_nodes(stages, room - len(stages), current)
    body: list[Text] = []
    for stage in stages:
        body.append(format_stage(stage))
        if hidden := sum(row.id not in kept for row in stage.nodes):
            body.append(Text(f"  ... {hidden} more: scientist tree", style="dim"))
        body += [format_node(row, frame.tree.metric, ascii=ascii) for row in stage.nodes if row.id in kept]
    lines = [*head, *body[:room], *tail][:height]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def choose_nodes(stages: Sequence[StageRows], room: int, current: StageRows) -> set[str]:
    """Choose the nodes to show: all nodes if they fit, otherwise the most relevant ones, with room left for the
    counts.
    """
    rows = [row for stage in stages for row in stage.nodes]
    if len(rows) <= room:
        return {row.id for row in rows}

    def weight(row: NodeRow) -> tuple[bool, bool, bool, int]:
        return row.status in ("proposed", "running"), row.best, row.stage == current.stage, row.decision

    return {row.id for row in sorted(rows, key=weight, reverse=True)[: max(1, room - len(stages))]}


def _format_head(frame: LiveFrame, elapsed: float, now: float, *, roomy: bool) -> Iterator[Text]:
    """Format title, progress, the reason for a pause, and the description of the metric."""
    yield Text(shorten(frame.title, 100), style="bold")
    progress = Text(frame.phase, style="bold cyan")
    yield progress.append(f"  {frame.progress}  {format_duration(elapsed)}  {frame.model}", style="not bold default")
    if bars := _format_bars(frame, elapsed):
        yield Text(bars, style="cyan")
    if frame.paused:
        yield Text(f"paused {frame.paused}", style="bold yellow")
    if frame.outage is not None:
        yield Text(
            f"paused {format_countdown(frame.outage.until, now)}: {shorten(frame.outage.reason, 160)}",
            style="bold yellow",
        )
    if frame.tree.metric and roomy:
        yield Text(format_metric(frame.tree.metric), style="dim")


def is_ascii(console: Console) -> bool:
    """Return whether the terminal lacks Unicode."""
    return not console.encoding.lower().startswith("utf")
