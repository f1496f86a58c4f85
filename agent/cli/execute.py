"""`scientist exec`: run a file in a kernel, exactly as a node's code runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.text import Text

from labwright.agent.cli.commands import Execute
from labwright.agent.cli.dry_run import list_dataset_rows
from labwright.agent.cli.errors import DONE, FAILED, format_block, format_line, print_result, print_to_stderr
from labwright.agent.cli.preflight import check_isolation
from labwright.agent.data import describe_columns, describe_targets, list_sources, survey_own_data
from labwright.agent.forecast import check_studied_llms, open_studied_llms
from labwright.agent.settings import Settings, compose_settings
from labwright.inspector.safe_text import format_duration
from labwright.record.errors import UsageError
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.nodes import Cell
from labwright.record.table import Table
from labwright.sandbox.data.tables import ColumnReading
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.isolation.bubblewrap import describe_isolation
from labwright.sandbox.job import JobOutcome

_CELL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(@[A-Za-z0-9][A-Za-z0-9_.-]*)?")
"""Arm, or arm@level, with the names that plans allow."""


def execute_file(args: Execute) -> int:
    file = args.file
    if args.describe:
        if file is not None:
            raise UsageError("--describe runs no file: give one of the two")
        return describe_own_data(compose_settings(config=args.config, flags=args.flags), json=args.json)
    if file is None:
        raise UsageError("give a Python file, or --describe with --data to see how your data are read")
    if not file.is_file():
        raise UsageError(f"{file} does not exist: give the path of a Python file")
    try:
        file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}; it must be a Python file in UTF-8") from None
    if bool(args.cells.strip()) != bool(args.on.strip()) or (args.setting and not args.cells.strip()):
        raise UsageError(
            "--cells requires --on, and --setting requires both: --cells baseline@low,method@low --on digits"
        )
    chosen = dict(map(_parse_hyperparameter, args.setting or ()))
    settings = compose_settings(config=args.config, flags=args.flags)
    check_isolation(settings.sandbox)
    check_studied_llms(settings)
    for note in (*survey_own_data(settings), *describe_targets(settings)):
        print_to_stderr(note)
    cells = {
        Cell(dataset=dataset, arm=arm, level=level, seed=settings.seed): chosen
        for dataset in _split_list(args.on)
        for arm, level in map(_parse_condition, _split_list(args.cells))
    }
    work = run_file(
        file,
        timeout=settings.sandbox.timeout,
        seed=settings.seed,
        settings=settings.sandbox,
        sources=list_sources(settings),
        subjects=partial(open_studied_llms, settings),
        cells=cells,
    )
    outcome = asyncio.run(work)
    plain = ("arrays", "sealed", "artifacts", "peak_host_bytes", "peak_gpu_bytes", "stdout_tail")
    print_result(
        {name: getattr(outcome, name) for name in plain}
        | {
            "seconds": round(outcome.seconds, 3),
            "failure": outcome.failure.model_dump(mode="json") if outcome.failure else None,
            "measurements": [one.model_dump(mode="json") for one in outcome.measurements],
            "cells": [one.model_dump(mode="json", exclude={"id", "node"}) for one in outcome.cells],
            "figures": [figure.name for figure in outcome.figures],
            "isolation": describe_isolation(settings.sandbox),
        },
        format_outcome(outcome),
        json=args.json,
    )
    return DONE if outcome.failure is None else FAILED


def describe_own_data(settings: Settings, *, json: bool) -> int:
    """Show how the columns of the user's data are read. Raises `UsageError`, `DatasetError`."""
    if not settings.data:
        raise UsageError("--describe needs data: --data NAME=PATH,target=COLUMN")
    found = list(describe_columns(settings))
    shown = {
        facts.name: facts.model_dump(mode="json") | {"rows": rows, "read": [asdict(one) for one in columns]}
        for facts, rows, columns in found
    }
    print_result(shown, (line for one in found for line in _format_reading(*one)), json=json)
    return DONE


def _format_reading(facts: DatasetFacts, rows: int, columns: Sequence[ColumnReading]) -> Iterator[Text | Table]:
    if columns:
        yield Table.of(
            ("column", "role", "read as", "values", "missing"),
            ((one.column, one.role, one.kind, one.values, str(one.missing)) for one in columns),
            title=facts.name,
        )
    of = f"of {rows} rows" if columns else "examples"
    yield format_line(f"{facts.example_count} {of} used, {facts.features} features after encoding")
    yield from (format_line(f"{name}: {text}") for name, text in list_dataset_rows(facts) if text)


def format_outcome(outcome: JobOutcome) -> Iterator[Text | Table]:
    """Format the printed output, the measurements, and the result."""
    yield from format_block(outcome.stdout_tail)
    if outcome.measurements:
        yield Table.of(
            ("metric", "dataset", "split", "condition", "seed", "grade", "value"),
            (
                (one.name, one.dataset, one.split, one.condition, str(one.seed), one.grade, f"{one.value:.6g}")
                for one in outcome.measurements
            ),
        )
    if outcome.cells:
        yield Table.of(
            ("cell", "outcome", "seconds", "why"),
            ((str(one.cell), one.outcome, f"{one.seconds:.1f}", one.why) for one in outcome.cells),
        )
    made = {"arrays": outcome.arrays, "sealed predictions": outcome.sealed, "figures": outcome.figures}
    left = [f"{len(names)} {what}" for what, names in made.items() if names]
    ended = f"ran {format_duration(outcome.seconds)}" + (f", {', '.join(left)}" if left else "")
    failure = outcome.failure
    if failure is None:
        yield Text(ended, style="green")
    else:
        yield from format_block(failure.traceback, "dim")
        yield format_line(f"{ended}; failed ({failure.kind}): {failure.message}", "red")


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _parse_condition(text: str) -> tuple[str, str]:
    """Split a condition into arm and level. Raises `UsageError`."""
    if not _CELL.fullmatch(text):
        raise UsageError(
            f"--cells {text!r} is not a cell: write arm or arm@level, with letters, digits, _ and - (in levels also .)"
        )
    arm, _, level = text.partition("@")
    return arm, level


def _parse_hyperparameter(text: str) -> tuple[str, Scalar]:
    """Parse NAME=VALUE; the value is a number or boolean if it can be parsed as such, otherwise a string. Raises
    `UsageError`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"--setting {text!r} is not NAME=VALUE, as in --setting learning_rate=0.1")
    with suppress(ValueError):
        found: Any = json.loads(value)
        return name.strip(), found if isinstance(found, bool | int | float) else value.strip()
    return name.strip(), value.strip()
