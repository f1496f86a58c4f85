"""`scientist exec`: a file in a kernel, exactly as a node's code runs."""

from __future__ import annotations

import asyncio
from json import dumps
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.cli.checks import check_isolation
from agent.cli.edge import DONE, FAILED, say
from agent.data import sources_of, survey
from agent.settings import compose
from agent.settings import seconds as seconds_of
from inspector.text import duration, plain
from record.errors import WrongUse
from sandbox.isolation.probe import describe_isolation
from sandbox.job import Outcome
from sandbox.single_file import run_file


def execute(file: Path, timeout: str | None, config: Path | None, json: bool, flags: dict[str, Any]) -> int:
    if not file.is_file():
        raise WrongUse(f"there is no file {file}: give the path of a Python file")
    try:
        file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"cannot read {file}: {error}; give a Python file in UTF-8") from None
    limit = None if timeout is None else _seconds(timeout)
    settings = compose(config=config, flags=flags)
    check_isolation(settings.sandbox)
    for warning in survey(settings):
        say(warning)
    outcome = asyncio.run(run_file(
        file, timeout=limit, seed=settings.seed, settings=settings.sandbox, sources=sources_of(settings)))
    if json:
        print(dumps({
            "seconds": round(outcome.seconds, 3),
            "failure": outcome.failure.model_dump(mode="json") if outcome.failure else None,
            "measurements": [one.model_dump(mode="json") for one in outcome.measurements],
            "arrays": outcome.arrays, "sealed": outcome.sealed, "artifacts": outcome.artifacts,
            "figures": [figure.name for figure in outcome.figures], "peak_host_bytes": outcome.peak_host_bytes,
            "peak_gpu_bytes": outcome.peak_gpu_bytes, "stdout_tail": outcome.stdout_tail,
            "isolation": describe_isolation(settings.sandbox)}, indent=1))
    else:
        show(outcome, Console())
    return DONE if outcome.failure is None else FAILED


def show(outcome: Outcome, console: Console) -> None:
    """What was printed, what was measured, and how it ended."""
    for line in outcome.stdout_tail.splitlines():
        console.print(Text(_line(line)), soft_wrap=True)
    if outcome.measurements:
        table = Table("metric", "dataset", "split", "condition", "seed", "grade", "value", box=None, pad_edge=False)
        for one in outcome.measurements:
            cells = (one.name, one.dataset, one.split, one.condition, str(one.seed), one.grade, f"{one.value:.6g}")
            table.add_row(*(Text(plain(cell)) for cell in cells))
        console.print(table)
    left = [f"{len(names)} {what}" for what, names in (
        ("arrays", outcome.arrays), ("sealed predictions", outcome.sealed), ("figures", outcome.figures)) if names]
    ended = f"ran {duration(outcome.seconds)}" + (f", left {', '.join(left)}" if left else "")
    failure = outcome.failure
    if failure is None:
        console.print(Text(ended, style="green"))
        return
    for line in failure.traceback.splitlines():
        console.print(Text(_line(line), style="dim"), soft_wrap=True)
    console.print(Text(f"{ended}; failed ({failure.kind}): {plain(failure.message)}", style="red"), soft_wrap=True)


def _line(text: str) -> str:
    """A printed line with its indentation, safe for a terminal."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + plain(text)


def _seconds(text: str) -> float:
    """Seconds of --timeout. Raises `WrongUse`."""
    try:
        limit = float(seconds_of(text))
    except ValueError:
        limit = -1.0
    if not 0 < limit < float("inf"):
        raise WrongUse(f"--timeout {text!r} is no duration: write 90s, 5m or a number of seconds")
    return limit
