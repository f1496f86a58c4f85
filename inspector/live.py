"""What is shown while a run goes on: a live tree on a terminal, plain lines elsewhere.

Views are listeners of the event log. They take a value from the state in the writer's thread and draw that: the thread
that refreshes the terminal never touches the state.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from inspector.lines import described
from inspector.render import metric_words, row_line, stage_line
from inspector.status import held_words
from inspector.text import cached, count, countdown, dollars, duration, plain, short
from inspector.tree import Row, StageRows, Tree, tree_of
from record.events.event import Event
from record.events.running import Commanded, Ended, Paused
from record.fold.state import RunState

TOLD = 3
"""Events shown in words under the live tree."""
ROOMY = 14
"""Lines of a terminal from which on events and the metric's meaning are shown too."""


class View(Protocol):
    """Shows a run while it goes on."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, event: Event, state: RunState) -> None: ...


def view_for(console: Console, *, clock: Callable[[], float] = time.time) -> View:
    """A live view on a terminal that can show one; plain lines for pipes, `NO_COLOR` and `TERM=dumb`."""
    return LiveView(console, clock=clock) if shows_live(console) else PlainView(console)


def shows_live(console: Console) -> bool:
    """Whether something may be redrawn in place there."""
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


class PlainView:
    """One line an event worth telling, after the time that was worked on the run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event, state: RunState) -> None:
        text = described(event, state)
        if text is not None:
            self._console.print(
                Text(f"{duration(state.active_seconds):>7}  {text}"), no_wrap=True, overflow="ignore", crop=False)


@dataclass(frozen=True)
class Frame:
    """What a live view draws, taken from the state at one event."""

    title: str
    model: str
    seed: int
    phase: str
    tree: Tree
    calls: str
    active: float
    """Seconds worked on the run, up to `at`."""
    at: float
    told: tuple[str, ...]
    outage: Paused | None = None
    """Why no model is asked, and until when."""
    held: Commanded | None = None
    """Who wants nothing new begun, and why; no time passes meanwhile."""

    @property
    def stage(self) -> StageRows:
        """The stage that is searched now; the last one that has nodes when none is."""
        found = [stage for stage in self.tree.stages if stage.nodes]
        current = [stage for stage in self.tree.stages if stage.stage == self.phase]
        return (current or found[-1:] or [self.tree.stages[0]])[0]


class LiveView:
    """The current stage's tree with progress, cost and time, redrawn in place; erased at the end."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.time) -> None:
        self._console, self._clock = console, clock
        self._told: deque[str] = deque(maxlen=TOLD)
        self._frame: Frame | None = None
        self._ended = False
        self._begin()

    def _begin(self) -> None:
        self._width = self._console.width
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event, state: RunState) -> None:
        text = described(event, state)
        if text is not None:
            self._told.append(text)
        self._ended = isinstance(event, Ended)
        self._frame = frame_of(state, tuple(self._told))
        if self._live.is_started and self._console.width < self._width:
            self._anew()

    def _anew(self) -> None:
        """Begin on a clean screen: a narrower terminal has broken the lines that are there into more."""
        self._live.stop()
        self._console.clear()
        self._begin()
        self._live.start(refresh=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        frame = self._frame
        if frame is None:
            yield Text("starting ...", style="dim")
            return
        elapsed = frame.active + (0.0 if self._ended or frame.held else max(0.0, self._clock() - frame.at))
        height = max(8, options.max_height) - 1
        yield Group(*drawn(frame, elapsed, height, now=self._clock(), ascii=is_ascii(console)))


def frame_of(state: RunState, told: tuple[str, ...] = ()) -> Frame:
    """What a live view shows of a state."""
    started, total = state.started, state.total
    calls = (f"{total.calls} calls  {count(total.input_tokens)} tokens in"
             f"{cached(total.cached_tokens, total.cached_usd)}, {count(total.output_tokens)} out  "
             f"{dollars(total.usd, total.unpriced)}")
    return Frame(
        title=plain(started.idea.title) if started else "", model=plain(started.model) if started else "",
        seed=started.seed if started else 0, phase=state.phase, tree=tree_of(state), calls=calls,
        active=state.active_seconds, at=state.last_at, told=told,
        outage=state.outage, held=state.held)


def drawn(frame: Frame, elapsed: float, height: int, *, now: float = 0.0, ascii: bool = False) -> list[Text]:
    """A frame as at most `height` lines; rows that do not fit are counted, the oldest finished ones first."""
    head, tail = head_lines(frame, elapsed, now), tail_lines(frame, roomy=height >= ROOMY)
    stage = frame.stage
    room = max(1, height - len(head) - len(tail) - 3)
    rows = fitting(stage.nodes, room)
    body = [stage_line(stage)] if stage.nodes else []
    if frame.tree.metric and stage.nodes and height >= ROOMY:
        body.insert(0, Text(metric_words(frame.tree.metric), style="dim"))
    if len(rows) < len(stage.nodes):
        body.append(Text(f"  ... {len(stage.nodes) - len(rows)} more: scientist tree", style="dim"))
    body += [row_line(row, frame.tree.metric, ascii=ascii) for row in rows]
    return cut([*head, *body, *tail], height)


def head_lines(frame: Frame, elapsed: float, now: float) -> list[Text]:
    """Title, progress, and why no model is asked."""
    head = [Text(short(frame.title, 100), style="bold"), _progress(frame, elapsed)]
    if frame.held is not None:
        head.append(Text(f"paused {held_words(frame.held)}", style="bold yellow"))
    if frame.outage is not None:
        head.append(Text(f"paused {countdown(frame.outage.until, now)}: {short(frame.outage.reason, 160)}",
                         style="bold yellow"))
    return head


def tail_lines(frame: Frame, *, roomy: bool) -> list[Text]:
    """What other stages still owe, what happened last, and what the calls took."""
    owing = [one for one in frame.tree.stages if one.owes and one.stage != frame.stage.stage and roomy]
    return [*(Text(f"  {one.stage} still owes {', '.join(one.owes)}", style="cyan") for one in owing),
            *(Text(f"  {text}", style="dim") for text in frame.told if roomy), Text(frame.calls)]


def cut(lines: list[Text], height: int) -> list[Text]:
    """The first `height` lines, each to be cut at the edge of the terminal."""
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines[:height]


def fitting(rows: tuple[Row, ...], room: int) -> tuple[Row, ...]:
    """At most `room` rows in their order: the best and the running ones, then the latest."""
    if len(rows) <= room:
        return rows
    urgent = sorted(rows, key=lambda row: (row.best, row.status in ("proposed", "running"), row.decision), reverse=True)
    kept = {row.id for row in urgent[:room]}
    return tuple(row for row in rows if row.id in kept)


def _progress(frame: Frame, elapsed: float) -> Text:
    """Phase, nodes done of the ceilings of all stages, time."""
    done = sum(stage.searched for stage in frame.tree.stages)
    ceiling = sum(stage.ceiling or 0 for stage in frame.tree.stages)
    line = Text(frame.phase, style="bold cyan")
    line.append(f"  {done}/{ceiling or '?'} nodes  {duration(elapsed)}  {frame.model}, seed {frame.seed}",
                style="not bold default")
    return line


def is_ascii(console: Console) -> bool:
    """Whether the terminal has no Unicode."""
    return not console.encoding.lower().startswith("utf")
