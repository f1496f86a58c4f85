"""Submissions for a task, by this project's agent or another: files, a design, a conclusion, the work log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pydantic import Field, ValidationError

from labwright.evals.expbench.tasks import as_text
from labwright.record.errors import UsageError
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.untrusted_files import write_file

SCRIPT_FILE = "reproduce_exp_bench.sh"
REPLY_KEYS = frozenset(("design", "conclusion"))


class SubmittedAnswer(FrozenModel):
    """A submission. `files` are by path in the repository, including the script. `given`: whether there is a usable
    answer.
    """

    variant: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    given: bool = True
    missing: bool = Field(default=False, description="whether no agent was asked, or the outcome is unknown")
    design: tuple[str, ...] = ()
    conclusion: str = ""
    extra: tuple[str, ...] = Field(default=(), description="extra keys, for which the original harness rejects it")
    record: dict[str, Any] = Field(default_factory=dict)
    judge: dict[str, Any] | None = Field(default=None, description="stored verdicts of a judge")
    minutes: float | None = None
    usd: float | None = None


def read_answers(file: Path) -> dict[str, tuple[SubmittedAnswer, ...]]:
    """Read the answers of a file, by task and variant. Raises `UsageError`."""
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(task): tuple(_parse_answer(str(name), one) for name, one in variants.items())
            for task, variants in content.items()
        }
    except OSError as error:
        raise UsageError(f"--answers {file} cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError, KeyError, ValidationError) as error:
        raise UsageError(
            f"--answers {file} is not a file of answers, {{TASK: {{VARIANT: {{files, answer, record}}}}}} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:160]})"
        ) from None


def _parse_answer(name: str, one: Mapping[str, Any]) -> SubmittedAnswer:
    files = cast("dict[str, str]", one.get("files") or {})
    for path in files:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ValueError(f"{path} is outside the repository")
    return answer_from_reply(one.get("answer")).model_copy(
        update={
            "variant": name,
            "files": files,
            "record": one.get("record") or {},
            "judge": one.get("judge"),
            "minutes": one.get("minutes"),
            "usd": one.get("usd"),
        }
    )


def answer_from_reply(reply: Any) -> SubmittedAnswer:
    """Parse an answer from JSON: design and conclusion; without either, there is no answer."""
    if not isinstance(reply, Mapping):
        return SubmittedAnswer(given=False)
    named = cast("Mapping[str, Any]", reply)
    if any(not named.get(key) for key in REPLY_KEYS):
        return SubmittedAnswer(given=False)
    design = named["design"]
    lines = cast("list[Any]", design) if isinstance(design, list) else [design]
    return SubmittedAnswer(
        design=tuple(as_text(line) for line in lines),
        conclusion=as_text(named["conclusion"]),
        extra=tuple(sorted(str(key) for key in named if key not in REPLY_KEYS)),
    )


def write_answer_files(answer: SubmittedAnswer, folder: Path) -> None:
    """Write its files into a masked copy."""
    for name, text in answer.files.items():
        write_file(folder, name, text)


def format_change(files: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return a unified diff of the changed files against the originals."""
    parts: list[str] = []
    for path, text in sorted(files.items()):
        before = texts.get(path, "")
        parts += unified_diff(
            before.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{path}" if path in texts else "/dev/null",
            f"b/{path}",
        )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)
