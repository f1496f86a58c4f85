"""Read logs of external programs: lines, timestamps, and final errors.

Neither the timestamps nor the origin of a line is verified.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

LOG_SUFFIXES = (".log", ".out", ".txt", ".err", ".jsonl")
MAX_LINES, MAX_LINE_CHARACTERS, MAX_LOG_BYTES = 20_000, 2_000, 20_000_000
"""Limits: lines of a log, characters of a line, bytes of a file."""

_LOG_NAME = re.compile(r"log|run|train|stdout|stderr|output|console|nohup|slurm|experiment", re.I)
_DATE_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_TIME_STAMP = re.compile(r"^\W{0,3}(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_ELAPSED_STAMP = re.compile(r"^\s*\[\s*(\d+\.\d+)\s*s?\]")
_EPOCH_STAMP = re.compile(r"[\"']?(?:ts|time|timestamp|asctime|created)[\"']?\s*[:=]\s*(1[5-9]\d{8}(?:\.\d+)?)")
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_ERROR_LINE = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?::|$)|^Traceback \(most recent call last\)|\bSegmentation fault\b"
    r"|\bKilled\b|non-zero exit status|CUDA out of memory|\bcore dumped\b|^(?:FATAL|Aborted)\b"
)


@dataclass(frozen=True)
class LogLine:
    """A line.

    `number` counts from 1; `stamp` is in seconds, None if the line has none.
    """

    number: int
    text: str
    stamp: float | None = None
    has_fractional_seconds: bool = False
    """Whether the timestamp has fractions of a second."""

    @cached_property
    def message(self) -> str:
        """Return the text after timestamp, logger and level."""
        text = _TIME_STAMP.sub("", _DATE_STAMP.sub("", self.text, count=1), count=1).lstrip(" -|:[]()\t")
        level = _LEVEL.search(text[:60])
        if level is not None:
            text = text[level.end() :]
        return text.lstrip(" -|:]>)\t")

    @property
    def is_error(self) -> bool:
        """Return whether the line reports that a program ended with an error."""
        return _ERROR_LINE.search(self.text.strip()) is not None


@dataclass(frozen=True)
class Log:
    """A log file; `name` is its path below the results folder."""

    name: str
    lines: tuple[LogLine, ...]

    @cached_property
    def stamped_lines(self) -> tuple[LogLine, ...]:
        return tuple(line for line in self.lines if line.stamp is not None)

    @property
    def duration_seconds(self) -> float | None:
        """Return the time from first to last timestamp; None if there are fewer than two."""
        stamps = [line.stamp for line in self.stamped_lines if line.stamp is not None]
        return max(stamps) - min(stamps) if len(stamps) > 1 else None

    @property
    def final_error(self) -> LogLine | None:
        """Return the line of an error that only its traceback follows; None if the log continues."""
        nonempty = [line for line in self.lines if line.text.strip()]
        last = next((line for line in reversed(nonempty) if line.is_error), None)
        if last is None:
            return None
        after = [line for line in nonempty if line.number > last.number]
        going_on = [line for line in after if not re.match(r"\s|File |\^|During handling|The above", line.text)]
        return last if len(going_on) <= 1 else None


def read_logs(folder: Path) -> tuple[Log, ...]:
    """Return the logs of a folder or a single file: recognised by their suffix, or as text files with the name or
    the timestamps of a log.
    """
    if folder.is_file():
        return (read_log(folder, folder.name),) if folder.suffix.lower() in LOG_SUFFIXES else ()
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in LOG_SUFFIXES
        and not path.is_symlink()
        and path.is_file()
        and path.stat().st_size <= MAX_LOG_BYTES
    )
    logs = [read_log(path, path.relative_to(folder).as_posix()) for path in paths[:200]]
    return tuple(log for log in logs if _is_log(log))


def read_log(path: Path, name: str) -> Log:
    """Read a log file; each state of a progress bar counts as a line."""
    text = path.read_text(encoding="utf-8", errors="replace")[:MAX_LOG_BYTES]
    lines = re.split(r"\r\n|\n|\r", text)[:MAX_LINES]
    if lines and not lines[-1]:
        lines.pop()
    return Log(name, tuple(_parse_line(number, line[:MAX_LINE_CHARACTERS]) for number, line in enumerate(lines, 1)))


def _is_log(log: Log) -> bool:
    stem, _, ending = log.name.rpartition("/")[2].lower().rpartition(".")
    if ending == "jsonl":
        return "log" in stem or len(log.stamped_lines) >= 3
    return ending in ("log", "out", "err") or bool(_LOG_NAME.search(stem)) or len(log.stamped_lines) >= 3


def _parse_line(number: int, text: str) -> LogLine:
    if dated := _DATE_STAMP.search(text[:60]):
        year, month, day, *time = dated.groups()
        try:
            whole = datetime(int(year), int(month), int(day)).toordinal() * 86_400.0
        except ValueError:
            return LogLine(number, text)
        return LogLine(number, text, whole + _to_seconds(time), has_fractional_seconds=time[3] is not None)
    if timed := _TIME_STAMP.match(text):
        return LogLine(number, text, _to_seconds(timed.groups()), has_fractional_seconds=timed[4] is not None)
    if passed := _ELAPSED_STAMP.match(text) or _EPOCH_STAMP.search(text[:200]):
        return LogLine(number, text, float(passed[1]), has_fractional_seconds=True)
    return LogLine(number, text)


def _to_seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, rest = parts
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0) + float(f"0.{rest}" if rest else 0)
