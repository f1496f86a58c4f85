"""The moving picture of README, from the recorded run: `python -m docs.pictures.moving [RUN]`.

The page of the run at moments of its work, its paper, and a number of the paper clicked. Each moment is the log of the
run cut off there, as if that were now. It needs Chromium.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Page

from docs.pictures.browser import Shot, cameras, show_number, show_part
from labwright.record.event_log import EventLog, read_events
from labwright.record.events import Event
from labwright.record.events.search_events import NodeJudged, PlanPrepared
from labwright.record.lock import acquire_lock
from labwright.record.zips import open_run_folder

HERE = Path(__file__).parent
RUN = HERE.parents[1] / "examples" / "recorded-run.zip"
TARGET = HERE / "run.gif"
PLACE = Path("/tmp/scientist")
"""Where what is shown lies: the page prints its path."""
LARGEST = 1_000_000
"""Bytes."""
NAME = "label-noise"
SIZE = {"width": 1100, "height": 680}
TOGETHER = """html { scroll-padding-top: 2.6rem } body { zoom: 0.66 } .page { max-width: none }
.aslist, #roads, #legend { display: none }
.stages .stage { grid-column: 1 / -1; min-height: 12.5rem }"""
CAPTION, FONT = 46, 19
COLOURS = 64
Log = Sequence[tuple[Event, float]]


class Scene(NamedTuple):
    """One picture, for so many milliseconds, with a caption, of a moment of the run (-1: it is over); `path` is of the
    page, below that of the run."""

    caption: str
    milliseconds: int
    moment: int
    path: str = ""
    shot: Shot = lambda page: None


def show_tree(page: Page) -> None:
    """All stages beside and below each other, without what stands around them."""
    page.evaluate(
        "rules => { const sheet = new CSSStyleSheet(); sheet.replaceSync(rules);"
        " document.adoptedStyleSheets = [sheet] }",
        TOGETHER,
    )  # the page's policy takes no style elements
    show_part(".stages")(page)


def show_code(page: Page) -> None:
    """The end of what is told of a number."""
    show_number(page)
    page.evaluate("() => { const panel = document.getElementById('panel'); panel.scrollTop = panel.scrollHeight }")


PLAN = "1  An idea becomes a plan with hypotheses, before any code is written"
TREE = "2  A tree search writes, runs, mends, tunes and ablates experiments"
DONE = "3  Fresh seeds and test data decide, or leave it open"
PAPER = "4  A paper is written from the record"
NUMBER = "5  A number in it is clicked: the seeds and predictions below it ..."
CODE = "5  ... the line of code, and the command that computes it again"
SCENES = (
    Scene(PLAN, 3000, 0),
    *(Scene(TREE, 1300, moment, "/tree", show_tree) for moment in range(1, 4)),
    Scene(TREE, 2400, -1, "/tree", show_tree),
    Scene(DONE, 3200, -1),
    Scene(PAPER, 2600, -1, "/paper", show_part("#sheet-1")),
    Scene(NUMBER, 3000, -1, "/paper", show_number),
    Scene(CODE, 4000, -1, "/paper", show_code),
)


def main(run: Path) -> None:
    """Write the picture; it must stay small."""
    log = read_events(run / "events.jsonl")
    PLACE.mkdir()
    with ExitStack() as held:
        held.callback(shutil.rmtree, PLACE)
        taken = PLACE / "taken"
        taken.mkdir()
        shown = [PLACE / str(number) / NAME for number in range(len(_moments(log)))]
        for folder, end in zip(shown, _moments(log), strict=True):
            held.enter_context(as_if_now(folder, log[:end]))
        shown.append(Path(shutil.copytree(run, PLACE / "runs" / NAME)))
        over = held.enter_context(cameras(taken))
        for number, scene in enumerate(SCENES):
            with over(shown[scene.moment]) as camera:
                camera.take(f"{number:02}", f"/runs/{NAME}{scene.path}", scene.shot, viewport=SIZE)
        frames = [
            _captioned(Image.open(taken / f"{number:02}.png"), scene.caption) for number, scene in enumerate(SCENES)
        ]
    _write(frames, [scene.milliseconds for scene in SCENES], TARGET)


def _moments(log: Log) -> list[int]:
    """How many events there are once the plan is made, and at three moments of the search."""
    planned = next(number for number, (event, _) in enumerate(log, 1) if isinstance(event, PlanPrepared))
    judged = [number for number, (event, _) in enumerate(log, 1) if isinstance(event, NodeJudged)]
    return [planned, *(judged[len(judged) * share // 100] for share in (16, 35, 80))]


@contextmanager
def as_if_now(folder: Path, log: Log) -> Generator[None]:
    """A run that goes on: this log, as if its last event were now, and a process that holds its lock."""
    folder.mkdir(parents=True, exist_ok=True)
    later = time.time() - log[-1][1]
    times = iter([at + later for _, at in log])
    written = EventLog(folder / "events.jsonl", clock=lambda: next(times))
    for event, _ in log:
        written.append(event)
    written.close()
    with acquire_lock(folder):
        yield


def _captioned(shown: Image.Image, caption: str) -> Image.Image:
    """A picture above its caption."""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), FONT)
    picture = Image.new("RGB", (shown.width, shown.height + CAPTION), "#1b2430")
    picture.paste(shown.convert("RGB"), (0, 0))
    ImageDraw.Draw(picture).text((20, shown.height + (CAPTION - FONT) // 2 - 2), caption, font=font, fill="#ffffff")
    return picture


def _write(frames: Sequence[Image.Image], milliseconds: Sequence[int], file: Path) -> None:
    """One palette for all frames, so that what stays the same takes no room."""
    sheet = Image.new("RGB", (frames[0].width, sum(frame.height for frame in frames)))
    for number, frame in enumerate(frames):
        sheet.paste(frame, (0, number * frame.height))
    palette = sheet.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(file, save_all=True, append_images=rest, duration=[*milliseconds], loop=0, optimize=True)
    if file.stat().st_size > LARGEST:
        raise SystemExit(f"{file} has {file.stat().st_size} bytes, more than {LARGEST}")


if __name__ == "__main__":
    main(open_run_folder(Path(sys.argv[1]) if sys.argv[1:] else RUN))
