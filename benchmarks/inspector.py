"""Cost of the web page: a run of 1,000 nodes with 40 MB of files, viewed in Chromium while it grows.

python -m benchmarks.inspector [--out FILE] [--nodes N] [--cells N] [--updates N] [--pages N] [--events N]

Prints one JSON object. `paint` is the browser's first contentful paint, from the start of the request; `update` is
the time from the commit of an event to the node's element in the page. Both are of the tree, which has every node.
`memory` is the server's. `views` are the other views of the run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from benchmarks.generated_runs import GrowingRun
from benchmarks.report import make_parser, print_report
from tests.inspector.browser.chromium import Viewer, chromium, running_viewer

LIMIT_MILLISECONDS = 180_000
"""Timeout of a page in milliseconds: the first one after the start reads the whole log."""
WATCH_SCRIPT = """
window.seen = {};
addEventListener("DOMContentLoaded", () => new MutationObserver((changes) => {
  const now = performance.timeOrigin + performance.now();
  for (const change of changes) for (const one of change.addedNodes)
    if (one.id?.startsWith("g-") && !(one.id in window.seen)) window.seen[one.id] = now;
}).observe(document.documentElement, { childList: true, subtree: true }));
"""
"""Records when a node's element appeared in the page, in milliseconds since the epoch."""


@contextmanager
def open_page(browser: Browser, address: str) -> Generator[Page]:
    """Open a loaded page in its own profile."""
    with closing(browser.new_context()) as context:
        context.set_default_timeout(LIMIT_MILLISECONDS)
        page = context.new_page()
        page.add_init_script(WATCH_SCRIPT)
        page.goto(address)
        yield page


def measure_paint(browser: Browser, address: str) -> dict[str, float]:
    """Return milliseconds from the request to the first byte, the first contentful paint, and the end of loading."""
    with open_page(browser, address) as page:
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
        found: dict[str, float] = page.evaluate("""() => {
            const whole = performance.getEntriesByType("navigation")[0];
            return { first_byte_ms: whole.responseStart, bytes: whole.encodedBodySize, loaded_ms: whole.loadEventEnd,
                     paint_ms: performance.getEntriesByName("first-contentful-paint")[0].startTime }; }""")
        return {name: round(value, 1) for name, value in found.items()}


def measure_update(page: Page, act: Callable[[], tuple[str, float]]) -> float:
    """Return milliseconds from what `act` did (it returns a node and a time) to the node's element in the page."""
    name, at = act()
    page.wait_for_function("id => id in window.seen", arg=f"g-{name}", polling=20)
    return float(page.evaluate("id => window.seen[id]", f"g-{name}")) - 1000 * at


def summarize_spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and both ten-percent quantiles, in milliseconds."""
    cut = statistics.quantiles(values, n=10) if len(values) > 1 else [values[0]] * 9
    return {"p10": round(cut[0], 1), "p50": round(statistics.median(values), 1), "p90": round(cut[8], 1)}


def measure_memory(pid: int) -> dict[str, float]:
    """Return megabytes (10^6 bytes) of a process: resident, proportional, and private."""
    names = {"Rss:": "rss_mb", "Pss:": "pss_mb", "Private_Dirty:": "own_mb"}
    fields = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {names[one[0]]: round(int(one[1]) * 1024 / 1e6, 1) for one in fields if one[0] in names}


def measure_first_pages(browser: Browser, address: str) -> dict[str, Any]:
    """Measure the first page of a fresh server, and later ones."""
    cold, later = measure_paint(browser, address), [measure_paint(browser, address) for _ in range(7)]
    return {
        "cold": cold,
        "later_ms": summarize_spread([one["paint_ms"] for one in later]),
        "first_byte_ms": summarize_spread([one["first_byte_ms"] for one in later]),
    }


def measure_updates(browser: Browser, address: str, growing: GrowingRun, number: int) -> dict[str, Any]:
    """Measure new nodes in an open page."""
    found: list[float] = []
    with open_page(browser, address) as page:
        time.sleep(1.0)
        for _ in range(number):
            found.append(measure_update(page, growing.add_node))
            time.sleep(0.13)  # out of step with the server's polling
    return {"ms": summarize_spread(found), "number": number}


def find_tree(viewer: Viewer, run: str) -> str:
    """Return the address of the tree of a run, with the token."""
    return f"{viewer.host}/runs/{run}/tree?{viewer.address.partition('?')[2]}"


def measure_views(browser: Browser, viewer: Viewer, run: str) -> dict[str, dict[str, float]]:
    """Measure first paint, loading and bytes of the run's other pages."""
    token = viewer.address.partition("?")[2]
    return {
        view or "overview": measure_paint(browser, f"{viewer.host}/runs/{run}{'/' * bool(view)}{view}?{token}")
        for view in ("", "reports", "chart", "table", "cells", "cost")
    }


def measure_many_pages(browser: Browser, address: str, growing: GrowingRun, pages: int, number: int) -> dict[str, Any]:
    """Measure updates with many open pages, each in its own profile: the first and the last that shows it."""
    from contextlib import ExitStack

    first: list[float] = []
    last: list[float] = []
    with ExitStack() as stack:
        shown = [stack.enter_context(open_page(browser, address)) for _ in range(pages)]
        time.sleep(1.0)
        for _ in range(number):
            name, at = growing.add_node()
            seen: list[float] = []
            for page in shown:
                seen.append(measure_update(page, lambda name=name, at=at: (name, at)))
            first.append(min(seen))
            last.append(max(seen))
            time.sleep(0.13)
    return {"pages": pages, "first_ms": summarize_spread(first), "last_ms": summarize_spread(last)}


def measure_all(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, in the order in which a user would use it."""
    growing = GrowingRun(folder / "made", given.nodes, given.cells)
    files = sum(path.stat().st_size for path in (folder / "made" / "nodes").rglob("*") if path.is_file())
    with closing(growing.log), chromium() as browser:
        began = os.getloadavg()[0]
        with running_viewer(growing.folder) as viewer:
            address = find_tree(viewer, growing.folder.name)
            used = {"started": measure_memory(viewer.pid)}
            pages = measure_first_pages(browser, address)
            others = measure_views(browser, viewer, growing.folder.name)
            used["after_pages"] = measure_memory(viewer.pid)
            found = measure_updates(browser, address, growing, given.updates)
            used["after_updates"] = measure_memory(viewer.pid)
            several = measure_many_pages(browser, address, growing, given.pages, max(3, given.updates // 4))
            used["after_many"] = measure_memory(viewer.pid)
            with open_page(browser, address):
                for _ in range(given.events // 12):  # a node has twelve events; five minutes of a busy run have 300
                    growing.add_node()
                    time.sleep(0.05)
                time.sleep(1.0)
            used["after_five_minutes"] = measure_memory(viewer.pid)
    return {
        "nodes": given.nodes,
        "cells": given.nodes * given.cells,
        "views": others,
        "files_mb": round(files / 1e6, 1),
        "load": {"before": began, "after": os.getloadavg()[0]},
        "server_ready_seconds": round(viewer.seconds, 2),
        "paint": pages,
        "update": found,
        "many_pages": several,
        "memory": used,
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=20, help="cells per node")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--events", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inspector-") as folder:
        print_report(measure_all(Path(folder), given), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
