"""What a terminal shows while a run goes on: a tree redrawn in place, plain lines elsewhere.

`scientist run` shows the current stage, `scientist tree --watch` all of them, on the terminal's alternate screen, so
that a resize never leaves rubbish behind. Views draw frames that are made in the thread that reads the events: the
thread that refreshes the terminal never touches the state.
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

from labwright.inspector.describe import describe
from labwright.inspector.follow import Follower
from labwright.inspector.render import bar, metric_text, print_lines, row_line, stage_line, tree_lines
from labwright.inspector.status import held_text
from labwright.inspector.text import cached, count, countdown, dollars, duration, plain, short
from labwright.inspector.tree import Row, StageRows, Tree, tree_of
from labwright.record.events import Event
from labwright.record.events.running import Commanded, Ended, Paused
from labwright.record.fold.state import RunState

LATEST = 3
"""Events shown under a live tree."""
ROOMY = 14
"""Lines of a terminal from which on events and the meaning of the metric are shown too."""
SHORT_BAR = 10
"""Characters of a bar: three facts fit into a line of 80."""
LOOK = 0.25
"""Seconds between two looks at the log of a run that another process writes."""


class PlainView(AbstractContextManager["PlainView"]):
    """A line for each event but small steps, after the time that was worked on the run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, event: Event, state: RunState) -> None:
        text = describe(event, state)
        if text is not None:
            self._console.print(
                Text(f"{duration(state.active_seconds):>7}  {text}"), no_wrap=True, overflow="ignore", crop=False
            )


class LiveView(AbstractContextManager["LiveView"]):
    """The tree of the current stage, or of all, with progress, cost and time: redrawn in place, erased at the end."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.time, whole: bool = False) -> None:
        self._console, self._clock, self._whole = console, clock, whole
        self._latest: deque[str] = deque(maxlen=LATEST)
        self._frame: Frame | None = None
        self._working = True
        self._begin()

    def _begin(self) -> None:
        self._width = self._console.width
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True, screen=self._whole)

    def __enter__(self) -> LiveView:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event, state: RunState) -> None:
        self.note(event, state)
        self.show(state, working=not isinstance(event, Ended))
        if self._live.is_started and self._console.width < self._width and not self._whole:
            # a clean screen: a terminal that became narrower has wrapped the lines that are there
            self._live.stop()
            self._console.clear()
            self._begin()
            self._live.start(refresh=True)

    def note(self, event: Event, state: RunState) -> None:
        """Keep an event for the lines under the tree."""
        text = describe(event, state)
        if text is not None:
            self._latest.append(text)

    def show(self, state: RunState, *, working: bool) -> None:
        """Draw a state from now on; its time goes on while a process is `working` on it."""
        self._frame, self._working = frame_of(state, tuple(self._latest)), working

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        frame, now = self._frame, self._clock()
        if frame is None:
            yield Text("starting ...", style="dim")
            return
        elapsed = frame.active + (max(0.0, now - frame.at) if self._working and frame.held is None else 0.0)
        height = (options.height or console.height) if self._whole else max(8, options.max_height) - 1
        yield from frame_lines(frame, elapsed, height, now=now, ascii=is_ascii(console), whole=self._whole)


def view_for(console: Console, *, clock: Callable[[], float] = time.time) -> LiveView | PlainView:
    """A live view on a terminal that can show one; plain lines for pipes, `NO_COLOR` and `TERM=dumb`."""
    return LiveView(console, clock=clock) if _redraws(console) else PlainView(console)


def _redraws(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


def watch(run: Path, console: Console, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the tree of a run until the run ends or Ctrl-C is pressed. Raises `RecordError`.

    Where nothing can be redrawn: the tree as it is, then a line for each event.
    """
    follower, lines, goes_on, first = Follower(run), PlainView(console), True, True
    view = LiveView(console, whole=True) if _redraws(console) else None
    try:
        with view or nullcontext():
            while goes_on:
                goes_on = follower.goes_on()
                for _, event, _ in follower.new():
                    if view is not None:
                        view.note(event, follower.state)
                    elif not first:
                        lines(event, follower.state)
                if view is not None:
                    view.show(follower.state, working=follower.process is not None)
                elif first and goes_on:
                    print_lines(console, tree_lines(tree_of(follower.state), ascii=is_ascii(console)))
                first = False
                if goes_on:
                    console.file.flush()
                    sleep(LOOK)
    except KeyboardInterrupt:
        console.print(Text("stopped watching; the run itself was not touched"))
        return
    print_lines(console, tree_lines(tree_of(follower.state), ascii=is_ascii(console)))
    console.print(Text(f"{follower.condition}; no process works on it", style="bold"))


# --- frames ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """What a live view draws, taken from the state at one event."""

    title: str
    phase: str
    progress: str
    model: str
    tree: Tree
    calls: str
    active: float
    """Seconds worked on the run, up to `at`."""
    at: float
    latest: tuple[str, ...]
    outage: Paused | None = None
    """Why no model is called, and until when."""
    held: Commanded | None = None
    """Who paused the run, and why; no time passes meanwhile."""
    limit: float | None = None
    """Seconds that the run may be worked on."""

    @property
    def stage(self) -> StageRows:
        """The stage that is searched now; the last one that has nodes when none is."""
        current = [stage for stage in self.tree.stages if stage.stage == self.phase]
        return (current or [stage for stage in self.tree.stages if stage.nodes][-1:] or [self.tree.stages[0]])[0]


def frame_of(state: RunState, latest: tuple[str, ...] = ()) -> Frame:
    """What a live view shows of a state."""
    started, total, tree = state.started, state.total, tree_of(state)
    calls = (
        f"{total.calls} calls  {count(total.input_tokens)} tokens in"
        f"{cached(total.cached_tokens, total.cached_usd)}, {count(total.output_tokens)} out  "
        f"{dollars(total.usd, total.unpriced)}"
    )
    limit, most = sum(stage.node_limit or 0 for stage in tree.stages), state.setting("time_limit")
    return Frame(
        title=plain(started.idea.title) if started else "",
        phase=state.phase,
        progress=f"{sum(stage.searched for stage in tree.stages)}/{limit or '?'} nodes",
        model=f"{plain(started.model)}, seed {started.seed}" if started else "",
        tree=tree,
        calls=calls,
        active=state.active_seconds,
        at=state.last_at,
        latest=latest,
        outage=state.outage,
        held=state.held,
        limit=float(most) if isinstance(most, int | float) else None,
    )


def _bars(frame: Frame, elapsed: float) -> str:
    """Bars of the stage's nodes and of all cells, and what is left of the time; empty where nothing is known of any."""
    stage, counts = frame.stage, [row.cells for each in frame.tree.stages for row in each.nodes if row.cells]
    found: list[str] = []
    for name, done, owed in (
        (stage.stage, stage.searched, stage.node_limit or 0),
        ("cells", sum(one.done for one in counts), sum(one.owed for one in counts)),
    ):
        found += [f"{bar(done, owed, SHORT_BAR)} {name} {done}/{owed}"] if owed else []
    found += [f"{duration(max(0.0, frame.limit - elapsed))} of {duration(frame.limit)} left"] if frame.limit else []
    return "  ".join(found)


def frame_lines(
    frame: Frame, elapsed: float, height: int, *, now: float = 0.0, ascii: bool = False, whole: bool = False
) -> list[Text]:
    """A frame as at most `height` lines: the current stage, or with `whole` all of them. What does not fit is counted.

    Shown first are the nodes that run, the best ones, those of the current stage, and the latest.
    """
    roomy, current = height >= ROOMY, frame.stage
    head = list(_head(frame, elapsed, now, roomy=roomy))
    tail: list[Text] = []
    if roomy:
        tail += [
            Text(f"  {stage.stage} still to do: {', '.join(stage.pending)}", style="cyan")
            for stage in frame.tree.stages
            if stage.pending and stage.stage != current.stage
        ]
        tail += [Text(f"  {text}", style="dim") for text in frame.latest]
    tail.append(Text(frame.calls))
    stages = [stage for stage in frame.tree.stages if stage.nodes and (whole or stage is current)]
    room = max(1, height - len(head) - len(tail))
    if len(stages) * 2 > room:
        stages = [stage for stage in stages if stage is current]
    kept = fitting(stages, room - len(stages), current)
    body: list[Text] = []
    for stage in stages:
        body.append(stage_line(stage))
        if hidden := sum(row.id not in kept for row in stage.nodes):
            body.append(Text(f"  ... {hidden} more: scientist tree", style="dim"))
        body += [row_line(row, frame.tree.metric, ascii=ascii) for row in stage.nodes if row.id in kept]
    lines = [*head, *body[:room], *tail][:height]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def fitting(stages: Sequence[StageRows], room: int, current: StageRows) -> set[str]:
    """The nodes to show: all, or those that matter most in the lines that the counts of the others leave."""
    rows = [row for stage in stages for row in stage.nodes]
    if len(rows) <= room:
        return {row.id for row in rows}

    def weight(row: Row) -> tuple[bool, bool, bool, int]:
        return row.status in ("proposed", "running"), row.best, row.stage == current.stage, row.decision

    return {row.id for row in sorted(rows, key=weight, reverse=True)[: max(1, room - len(stages))]}


def _head(frame: Frame, elapsed: float, now: float, *, roomy: bool) -> Iterator[Text]:
    """Title, progress, why the run is paused, and what the numbers of the tree are."""
    yield Text(short(frame.title, 100), style="bold")
    progress = Text(frame.phase, style="bold cyan")
    yield progress.append(f"  {frame.progress}  {duration(elapsed)}  {frame.model}", style="not bold default")
    if bars := _bars(frame, elapsed):
        yield Text(bars, style="cyan")
    if frame.held is not None:
        yield Text(f"paused {held_text(frame.held)}", style="bold yellow")
    if frame.outage is not None:
        yield Text(
            f"paused {countdown(frame.outage.until, now)}: {short(frame.outage.reason, 160)}", style="bold yellow"
        )
    if frame.tree.metric and roomy:
        yield Text(metric_text(frame.tree.metric), style="dim")


def is_ascii(console: Console) -> bool:
    """Whether the terminal has no Unicode."""
    return not console.encoding.lower().startswith("utf")
