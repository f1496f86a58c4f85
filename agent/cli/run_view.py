"""Show a run in the terminal while this process executes it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path

from rich.console import Console

from labwright.agent.cli.errors import INTERRUPTED, as_unbreakable, print_to_stderr, saving_traceback
from labwright.agent.forecast import estimate_remaining
from labwright.inspector.findings import list_report_files
from labwright.inspector.live_view import choose_view
from labwright.inspector.render import format_remaining_estimate
from labwright.inspector.status import build_status
from labwright.inspector.summary import format_ending
from labwright.inspector.tracking import OpenTracker, TrackerSync
from labwright.record.event_log import EventListener, read_state
from labwright.record.events import Event
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.run_state import RunState


def run_with_view(work: Callable[[EventListener], int], folder: Path, mirrored: OpenTracker | None = None) -> int:
    """Show and mirror a run while it is running, print its result at the end, and return its exit code."""
    console = Console(file=as_unbreakable(sys.stdout))
    print_plain = partial(console.print, markup=False, highlight=False, soft_wrap=True)

    @cache
    def name_folder() -> None:  # not before the first event: a start that is refused leaves no folder
        print_plain(f"run folder: {folder}")

    try:
        with (
            saving_traceback(folder),
            TrackerSync(folder, mirrored, print_to_stderr) if mirrored else nullcontext(),
            choose_view(console) as view,
        ):
            code = work(add_folder_and_forecast(view, name_folder, print_plain))
    except KeyboardInterrupt:  # outside the event loop, which handles signals itself
        print_to_stderr(f"interrupted; continue with: scientist resume {folder}")
        return INTERRUPTED
    name_folder()
    ended = build_status(str(folder), read_state(folder), (), None, now=time.time(), folder=folder)
    for line in format_ending(ended, list_report_files(folder)):
        console.print(line, soft_wrap=True, highlight=False)
    return code


def add_folder_and_forecast(
    view: EventListener, name_folder: Callable[[], None], print_plain: Callable[[str], None]
) -> EventListener:
    """Wrap a view so that the run's folder is named before the first event, and a forecast of the whole run is printed
    once its plan is ready.
    """

    def show(event: Event, state: RunState) -> None:
        name_folder()
        view(event, state)
        ahead = estimate_remaining(state) if isinstance(event, PlanPrepared) else None
        if ahead is not None:
            print_plain(f"forecast: {format_remaining_estimate(ahead)}")

    return show
