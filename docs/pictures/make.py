"""Makes the pictures of README and docs from the recorded run: `python -m docs.pictures.make [RUN]`.

It needs Chromium. Shown is a copy at a path that means nothing. The run that goes on is that run
again, its log cut off where a person is about to end a node, with a process that holds its lock.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from docs.pictures.browser import (
    PHONE,
    Camera,
    cameras,
    click,
    open_part,
    show_chart,
    show_node,
    show_note,
    show_number,
)
from docs.pictures.moving import as_if_now
from docs.pictures.terminal import draw
from labwright.inspector.diagnosis import diagnose_run
from labwright.inspector.event_text import describe_event
from labwright.inspector.live_view import format_live
from labwright.inspector.render import format_status, format_tree
from labwright.inspector.status import build_status
from labwright.inspector.tree import build_tree
from labwright.record.event_log import read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.zips import open_run_folder

HERE = Path(__file__).parent
RUN = HERE.parents[1] / "examples" / "recorded-run.zip"
SHOWN = "examples/recorded-run.zip"
PLACE = Path("/tmp/scientist")
"""Where what is shown lies: pages print paths."""
Log = list[tuple[Event, float]]


def main(run: Path) -> None:
    """All pictures."""
    log = read_events(run / "events.jsonl")
    begun = log[: _moment(log)]
    _terminal(run, begun)
    PLACE.mkdir()
    try:
        shown = Path(shutil.copytree(run, PLACE / SHOWN))
        with cameras(HERE) as over:
            with over(shown) as camera:
                _pages(camera, shown)
            with _going_on(shown, begun) as runs, over(runs) as camera:
                _live(camera)
    finally:
        shutil.rmtree(PLACE)
    _beside("phone", ("phone-1", "phone-2", "phone-3"))


def _moment(log: Log) -> int:
    """How many events there are before a person ends a node."""
    return next(
        number for number, (event, _) in enumerate(log) if isinstance(event, CommandReceived) and event.verb == "kill"
    )


# --- terminal ---------------------------------------------------------------------------------------------


def _terminal(run: Path, begun: Log) -> None:
    draw(f"scientist tree {SHOWN}", format_tree(build_tree(read_state(run))), HERE / "tree.png")
    state, latest = RunState(), list[str]()
    for event, at in begun:
        apply_event(state, event, at)
        latest += [text for text in (describe_event(event, state),) if text is not None]
    last = begun[-1][1]
    draw("scientist tree --watch RUN", format_live(state, latest[-3:], 32), HERE / "watch.png")
    found = diagnose_run(state, "process 4711", now=last)
    status = build_status("RUN", state, (), "process 4711", now=last).model_copy(update={"diagnosis": found})
    draw("scientist status RUN", format_status(status), HERE / "status.png")


def _joined(files: list[Path], target: Path, colours: int) -> None:
    """Pictures of one size side by side."""
    shown = [Image.open(file).convert("RGB") for file in files]
    width, height = shown[0].size
    picture = Image.new("RGB", (len(shown) * (width + 16) + 16, height + 32), "#d0d4da")
    for number, one in enumerate(shown):
        picture.paste(one, (16 + number * (width + 16), 16))
    picture.quantize(colours, kmeans=1, dither=Image.Dither.NONE).save(target, optimize=True)


def _beside(name: str, parts: tuple[str, ...]) -> None:
    files = [HERE / f"{part}.png" for part in parts]
    _joined(files, HERE / f"{name}.png", 64)
    for file in files:
        file.unlink()


# --- the page -------------------------------------------------------------------------------------------------------


def _pages(camera: Camera, run: Path) -> None:
    state, page = read_state(run), f"/runs/{run.name}"
    nodes = list(state.nodes.values())
    [best] = [node.id for node in nodes if node.id == build_tree(state).winner]
    mended = next(node.id for node in nodes if node.kind == "debug")
    camera.take("page", page, viewport={"width": 1440, "height": 900})
    camera.take("node", f"{page}/nodes/{mended}", click("details:has(.diff) > summary", ".diff"))
    camera.take("number", f"{page}/paper", show_number)
    camera.take("calls", f"{page}/calls?role=code", show_note)
    camera.take("chart", f"{page}/chart", show_chart, viewport={"width": 1280, "height": 620})
    camera.take("reports", f"{page}/reports", open_part("#report-tuning"))
    camera.take("checks", f"{page}/checks")
    camera.take("dark", f"{page}/tree", show_node(mended), color_scheme="dark")
    phone: dict[str, Any] = {"viewport": PHONE, "has_touch": True}
    camera.take("phone-1", page, **phone)
    camera.take("phone-2", f"{page}/tree", show_node(best), **phone)
    camera.take("phone-3", f"{page}/reports", open_part("#report-tuning"), **phone)


def _live(camera: Camera) -> None:
    camera.take("runs", "/", viewport={"width": 1280, "height": 380})
    camera.take("steer", "/runs/going-on", click("#act-pause-run > summary", "#act-pause-run form"))


@contextmanager
def _going_on(run: Path, begun: Log) -> Generator[Path]:
    """A folder with the run, and with one that goes on: the same, as far as it was then, as if that were now."""
    runs = PLACE / "runs"
    shutil.copytree(run, runs / run.name)
    live = Path(
        shutil.copytree(run, runs / "going-on", ignore=shutil.ignore_patterns("events.jsonl", "paper", "review"))
    )
    with as_if_now(live, begun):
        yield runs


if __name__ == "__main__":
    main(open_run_folder(Path(sys.argv[1]) if sys.argv[1:] else RUN))
