"""`scientist tree --watch`: the whole tree on a terminal, redrawn as the run goes on; elsewhere a line an event.

On a terminal it has the other screen to itself, so that a new size or a lost line never leaves rubbish behind; the tree
as it was last is printed when it ends. It ends by itself with the run; Ctrl-C ends it and leaves the run alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from inspector.follow import Follower
from inspector.lines import described
from inspector.live import (
    ROOMY,
    TOLD,
    Frame,
    PlainView,
    cut,
    frame_of,
    head_lines,
    is_ascii,
    shows_live,
    tail_lines,
)
from inspector.render import metric_words, print_lines, row_line, stage_line, tree_lines
from inspector.tree import Row, StageRows, tree_of

LOOK = 0.25
"""Seconds between two looks at the log."""


def watch(run: Path, console: Console, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the tree of a run until the run ends or Ctrl-C is pressed. Raises `RecordError`."""
    follower = Follower(run)
    try:
        if shows_live(console):
            _redrawn(follower, console, sleep)
        else:
            _told(follower, console, sleep)
    except KeyboardInterrupt:
        console.print(Text("watched no longer; the run is left as it is"))
        return
    print_lines(console, tree_lines(tree_of(follower.state), ascii=is_ascii(console)))
    console.print(Text(f"{follower.condition}; nobody works on it", style="bold"))


def _redrawn(follower: Follower, console: Console, sleep: Callable[[float], None]) -> None:
    shown, told = _Screen(), deque[str](maxlen=TOLD)
    with Live(shown, console=console, screen=True, refresh_per_second=4) as live:
        while True:
            goes_on = follower.goes_on()
            for _, event, _ in follower.new():
                text = described(event, follower.state)
                if text is not None:
                    told.append(text)
            shown.frame, shown.working = frame_of(follower.state, tuple(told)), follower.process is not None
            if not goes_on:
                return
            live.refresh()
            sleep(LOOK)


def _told(follower: Follower, console: Console, sleep: Callable[[float], None]) -> None:
    """The tree as it is, then an event a line."""
    lines, first = PlainView(console), True
    while True:
        goes_on = follower.goes_on()
        for _, event, _ in follower.new():
            if not first:
                lines(event, follower.state)
        if not goes_on:
            return
        if first:
            print_lines(console, tree_lines(tree_of(follower.state), ascii=is_ascii(console)))
        console.file.flush()
        first = False
        sleep(LOOK)


class _Screen:
    """What the thread that draws finds: the last frame, made by the thread that reads."""

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self.working = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        frame, now = self.frame, time.time()
        if frame is None:
            yield Text("reading ...", style="dim")
            return
        elapsed = frame.active + (max(0.0, now - frame.at) if self.working else 0.0)
        yield from whole(frame, elapsed, options.height or console.height, now=now, ascii=is_ascii(console))


def whole(frame: Frame, elapsed: float, height: int, *, now: float, ascii: bool = False) -> list[Text]:
    """All stages in at most `height` lines: head, tree, last events. What does not fit is counted at its stage."""
    roomy = height >= ROOMY
    head, tail = head_lines(frame, elapsed, now), tail_lines(frame, roomy=roomy)
    if frame.tree.metric and roomy:
        head.append(Text(metric_words(frame.tree.metric), style="dim"))
    stages = [one for one in frame.tree.stages if one.nodes]
    room = max(1, height - len(head) - len(tail))
    if len(stages) * 2 > room:
        stages = [one for one in stages if one.stage == frame.stage.stage]
    kept = _kept(stages, frame.stage, room - len(stages))
    body = [line for stage in stages for line in _stage(stage, kept, frame, ascii=ascii)]
    return cut([*head, *body[:room], *tail], height)


def _kept(stages: list[StageRows], current: StageRows, room: int) -> set[str]:
    """The nodes that are shown: all, or those that matter most in the lines that the counts of the others leave."""
    rows = [row for stage in stages for row in stage.nodes]
    if len(rows) <= room:
        return {row.id for row in rows}

    def weight(row: Row) -> tuple[bool, bool, bool, int]:
        return row.status in ("proposed", "running"), row.best, row.stage == current.stage, row.decision

    return {row.id for row in sorted(rows, key=weight, reverse=True)[: max(1, room - len(stages))]}


def _stage(stage: StageRows, kept: set[str], frame: Frame, *, ascii: bool) -> Iterator[Text]:
    yield stage_line(stage)
    left = sum(row.id not in kept for row in stage.nodes)
    if left:
        yield Text(f"  ... {left} more", style="dim")
    for row in stage.nodes:
        if row.id in kept:
            yield row_line(row, frame.tree.metric, ascii=ascii)
