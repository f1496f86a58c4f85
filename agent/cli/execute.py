"""`scientist exec`: a file in a kernel, exactly as a node's code runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

from rich.table import Table
from rich.text import Text

from labwright.agent.budget import check_subjects, subjects_of
from labwright.agent.cli.checks import check_isolation
from labwright.agent.cli.commands import Execute
from labwright.agent.cli.edge import DONE, FAILED, say
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.data import sources_of, survey, targets
from labwright.agent.settings import compose
from labwright.agent.settings import seconds as seconds_of
from labwright.inspector.text import duration, plain
from labwright.record.errors import WrongUse
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.frozen import Scalar
from labwright.sandbox.isolation.probe import describe_isolation
from labwright.sandbox.job import Outcome
from labwright.sandbox.single_file import run_file

_CELL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(@[A-Za-z0-9][A-Za-z0-9_.-]*)?")
"""As plans name arms and levels."""


def execute(asked: Execute) -> int:
    file = asked.file
    if not file.is_file():
        raise WrongUse(f"there is no file {file}: give the path of a Python file")
    try:
        file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"cannot read {file}: {error}; give a Python file in UTF-8") from None
    limit = None if asked.timeout is None else wall_clock(asked.timeout)
    if bool(asked.cells.strip()) != bool(asked.on.strip()) or (asked.setting and not asked.cells.strip()):
        raise WrongUse(
            "--cells and --on belong together: --cells baseline@low,method@low --on digits, and --setting to them"
        )
    chosen = dict(map(_hyperparameter, asked.setting or ()))
    settings = compose(config=asked.config, flags=asked.flags)
    check_isolation(settings.sandbox)
    check_subjects(settings)
    for told in (*survey(settings), *targets(settings)):
        say(told)
    outcome = asyncio.run(
        run_file(
            file,
            timeout=limit,
            seed=settings.seed,
            settings=settings.sandbox,
            sources=sources_of(settings),
            subjects=partial(subjects_of, settings),
            cells={
                Cell(dataset=dataset, arm=arm, level=level, seed=settings.seed): chosen
                for dataset in _words(asked.on)
                for arm, level in map(_condition, _words(asked.cells))
            },
        )
    )
    answer(
        {
            "seconds": round(outcome.seconds, 3),
            "failure": outcome.failure.model_dump(mode="json") if outcome.failure else None,
            "measurements": [one.model_dump(mode="json") for one in outcome.measurements],
            "cells": [one.model_dump(mode="json", exclude={"id", "node"}) for one in outcome.cells],
            "arrays": outcome.arrays,
            "sealed": outcome.sealed,
            "artifacts": outcome.artifacts,
            "figures": [figure.name for figure in outcome.figures],
            "peak_host_bytes": outcome.peak_host_bytes,
            "peak_gpu_bytes": outcome.peak_gpu_bytes,
            "stdout_tail": outcome.stdout_tail,
            "isolation": describe_isolation(settings.sandbox),
        },
        lines(outcome),
        json=asked.json,
    )
    return DONE if outcome.failure is None else FAILED


def lines(outcome: Outcome) -> Iterator[Text | Table]:
    """What was printed, what was measured, and how it ended."""
    yield from _printed(outcome.stdout_tail)
    if outcome.measurements:
        yield table(
            "metric",
            "dataset",
            "split",
            "condition",
            "seed",
            "grade",
            "value",
            rows=(
                (one.name, one.dataset, one.split, one.condition, str(one.seed), one.grade, f"{one.value:.6g}")
                for one in outcome.measurements
            ),
        )
    if outcome.cells:
        yield table(
            "cell",
            "became",
            "seconds",
            "why",
            rows=((str(one.cell), one.outcome, f"{one.seconds:.1f}", one.why) for one in outcome.cells),
        )
    left = [
        f"{len(names)} {what}"
        for what, names in (
            ("arrays", outcome.arrays),
            ("sealed predictions", outcome.sealed),
            ("figures", outcome.figures),
        )
        if names
    ]
    ended = f"ran {duration(outcome.seconds)}" + (f", left {', '.join(left)}" if left else "")
    failure = outcome.failure
    if failure is None:
        yield Text(ended, style="green")
    else:
        yield from _printed(failure.traceback, "dim")
        yield line(f"{ended}; failed ({failure.kind}): {failure.message}", "red")


def _printed(text: str, style: str = "") -> Iterator[Text]:
    """Printed lines with their indentation, safe for a terminal."""
    for one in text.splitlines():
        yield Text(" " * (len(one) - len(one.lstrip(" "))) + plain(one), style=style)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _condition(text: str) -> tuple[str, str]:
    """Arm and level. Raises `WrongUse`."""
    if not _CELL.fullmatch(text):
        raise WrongUse(
            f"--cells {text!r} is no cell: write arm, or arm@level, with letters, digits, _ and - (in levels also .)"
        )
    arm, _, level = text.partition("@")
    return arm, level


def _hyperparameter(text: str) -> tuple[str, Scalar]:
    """Name and value: a number, true or false where it looks like one, else text. Raises `WrongUse`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise WrongUse(f"--setting {text!r} is not NAME=VALUE, as in --setting learning_rate=0.1")
    with suppress(ValueError):
        found: Any = json.loads(value)
        return name.strip(), found if isinstance(found, bool | int | float) else value.strip()
    return name.strip(), value.strip()


def wall_clock(text: str) -> float:
    """Seconds of --timeout. Raises `WrongUse`."""
    with suppress(ValueError):
        limit = float(seconds_of(text))
        if 0 < limit < inf:
            return limit
    raise WrongUse(f"--timeout {text!r} is not a duration: write 90s, 5m or a number of seconds")
