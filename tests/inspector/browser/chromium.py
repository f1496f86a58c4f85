"""Starts a browser that speaks to this machine alone, and processes to look at with it; all of them are ended."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # installed with the extra `dev`; tests are skipped without it
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[3]
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP rebound.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
"""Nothing outside is asked: no service of the browser's maker, no name but those of this machine, of which one is a
stranger's that leads here."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 60.0
"""Seconds that a browser or a server gets to start."""


def find_chromium() -> str | None:
    """The browser of this system; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def chromium(*flags: str) -> Generator[Browser]:
    """A browser with a fresh profile, without a window. Its processes end with the context."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=[*FLAGS, *flags],
            chromium_sandbox=os.getuid() != 0,
            timeout=1000 * START_SECONDS,
        )
        try:
            yield browser
        finally:
            browser.close()


class Viewer(NamedTuple):
    """A `scientist view` at work: its address with the token, its process id, seconds until it listened."""

    address: str
    pid: int
    seconds: float

    @property
    def host(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self.address.partition("/?")[0]


@contextmanager
def running_viewer(place: Path, *options: str, root: Path = ROOT) -> Generator[Viewer]:
    """`scientist view` over a run or a folder of runs, as a process of its own on a free port; `root`: its sources."""
    began = time.monotonic()
    with running_module("labwright", "view", str(place), *options, root=root) as process:
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)) is None:
            line = _read_line(process, began + START_SECONDS)
            assert line, f"scientist view printed no address: {said!r}"
            said += line
        yield Viewer(found[0], process.pid, time.monotonic() - began)


@contextmanager
def running_module(module: str, *words: str, root: Path = ROOT) -> Generator[subprocess.Popen[str]]:
    """A process of a module of ours, with its output in a pipe; ended with its children at the end of the context."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=root,
        start_new_session=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        end_process(process)


def end_process(process: subprocess.Popen[str], patience: float = 10.0) -> None:
    """End a process: asked first, then killed with its session."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait(patience)
    if process.stdout is not None:
        process.stdout.close()


def _read_line(process: subprocess.Popen[str], end: float) -> str:
    """The next line of a process; empty when it ended or the time is over."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
    return process.stdout.readline() if ready else ""
