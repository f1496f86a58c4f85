"""Read the file of a question: Markdown with just the question, or TOML with its fields."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labwright.record.errors import UsageError
from labwright.record.repository_source import OUTPUT_FOLDER
from labwright.record.schema.research_question import ResearchQuestion
from labwright.sandbox.repository.metric import MetricError, parse_metric

MAX_QUESTION_BYTES = 100_000


def read_question(file: Path) -> ResearchQuestion:
    """Read a question file: A Markdown file contains just the question, a TOML file its fields. Raises `UsageError`."""
    try:
        if file.stat().st_size > MAX_QUESTION_BYTES:
            raise UsageError(f"--task {file} is larger than {MAX_QUESTION_BYTES // 1000} kB: give only the question")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read --task {file} ({error.strerror}): give a question (.md or .toml)") from None
    except UnicodeDecodeError:
        raise UsageError(f"--task {file} is not UTF-8 text: save it as text") from None
    if file.suffix != ".toml":
        if len(text.split()) < 3:
            raise UsageError(f"--task {file} has fewer than three words: ask a question")
        return ResearchQuestion(question=text.strip())
    try:
        return parse_question(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError, MetricError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first is not None else str(error)
        raise UsageError(f"--task {file}: {' '.join(why.split())}") from None


def parse_question(table: dict[str, Any]) -> ResearchQuestion:
    """Parse the fields of a question. Raises `ValueError`, `MetricError`."""
    known = {*ResearchQuestion.model_fields}
    if odd := [name for name in table if name not in known]:
        raise ValueError(f"unknown key {odd[0]!r}; known keys are {', '.join(sorted(known))}")
    if "question" not in table:
        raise ValueError("`question` is missing")
    measure = table.get("measure", "")
    if isinstance(measure, dict):
        given: dict[str, Any] = measure  # pyright: ignore
        table = table | {
            "better": {"lower": "min", "higher": "max"}.get(
                given.get("better", ""), given.get("better", table.get("better", "max"))
            )
        }
        measure = (
            f"stdout:{given['stdout']}" if "stdout" in given else (f"{given.get('file', '')}:{given.get('key', '')}")
        )
    run = table.get("run", ())
    run = tuple(
        str(word).replace("{out}", OUTPUT_FOLDER) for word in (shlex.split(run) if isinstance(run, str) else run)
    )
    if bool(run) != bool(measure):
        raise ValueError("`run` (the command) and `measure` (where to read its number) must be given together")
    if measure:
        parse_metric(str(measure))
    found = ResearchQuestion.model_validate(table | {"measure": measure, "run": run})
    if found.better not in ("max", "min"):
        raise ValueError("`better` must be max or min")
    return found
