"""Find implausible log timestamps, and stated durations that contradict them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from labwright.review.external_papers.logs import Log, LogLine
from labwright.review.external_papers.signs.sign import Kind, Sign

RARE = 1e-5
"""Below this probability, timestamps count as not coming from a clock."""
_TOOK = re.compile(
    r"(?:completed?|finished|done|took|total (?:run)?time|total training time|elapsed|runtime|duration|training time)\b"
    r"[^\d\n]{0,30}(?:(\d+)\s*h(?:ours?|r)?s?\W+)?(?:(\d+)\s*m(?:in\w*)?\W+)?(\d+(?:\.\d+)?)\s*"
    r"(s\b|sec\w*|m\b|min\w*|h\b|hours?|hrs?)",
    re.I,
)
_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0}


def of_stamps(log: Log) -> Iterator[Sign]:
    """Yield all signs of this kind in one log."""
    yield from _stamps(log)
    yield from _durations(log)


def _stamps(log: Log) -> Iterator[Sign]:
    """Find whole seconds that are all even or all multiples of five."""
    seconds = list(
        dict.fromkeys(
            int(line.stamp) for line in log.stamped_lines if line.stamp is not None and not line.has_fractional_seconds
        )
    )
    if not seconds:
        return
    ends = [second % 60 for second in seconds]
    first = next(line for line in log.stamped_lines if not line.has_fractional_seconds)
    for divisor in (5, 2):
        fitting = sum(end % divisor == 0 for end in ends)
        if (
            fitting >= (0.6 + 0.2 * (divisor == 2)) * len(ends)
            and _chance(len(ends), fitting, 1 / divisor) < RARE
            and (_steps_vary(seconds))
        ):
            yield line_sign(
                "round stamps",
                f"{fitting} of {len(ends)} timestamps are multiples of {divisor} seconds",
                log,
                first,
                0.8,
            )
            return


def _chance(of: int, hits: int, share: float) -> float:
    """Return the probability of at least this many hits."""
    return sum(math.comb(of, at) * share**at * (1 - share) ** (of - at) for at in range(hits, of + 1))


def _steps_vary(seconds: Sequence[int]) -> bool:
    """Return whether the steps differ; a program that sleeps between lines has equal steps."""
    steps = [b - a for a, b in pairwise(seconds)]
    return bool(steps) and max(map(steps.count, set(steps))) < 0.8 * len(steps)


def _durations(log: Log) -> Iterator[Sign]:
    """Find stated durations that contradict earlier timestamps."""
    first = next((line.stamp for line in log.stamped_lines), None)
    for line in log.stamped_lines:
        took = _TOOK.search(line.message)
        if (
            took is None
            or first is None
            or line.stamp is None
            or re.search(r"eta|remaining|estimat|expect|limit", line.text, re.I)
        ):
            continue
        said = float(took[1] or 0) * 3600 + float(took[2] or 0) * 60 + float(took[3]) * _UNIT[took[4][0].lower()]
        passed = line.stamp - first
        if said > 2 * passed + 30 and passed >= 0:
            yield line_sign(
                "time", f"the log states {said:g} s, but its timestamps allow at most {passed:g} s", log, line, 0.75
            )
    yield from _epochs(log)


_PER_EPOCH = re.compile(r"epoch\D{0,8}(\d+).*?(?:time|took|in)\D{0,6}(\d+(?:\.\d+)?)\s*(s|sec\w*|m|min\w*)\b", re.I)


def _epochs(log: Log) -> Iterator[Sign]:
    timed = [
        (line, int(match[1]), float(match[2]) * _UNIT[match[3][0].lower()])
        for line in log.stamped_lines
        if (match := _PER_EPOCH.search(line.text))
    ]
    for (before, one, _), (line, two, said) in pairwise(timed):
        if (
            two == one + 1
            and before.stamp is not None
            and line.stamp is not None
            and said > 3 * (line.stamp - before.stamp) + 5
        ):
            yield line_sign(
                "time",
                f"an epoch of {said:g} s ends {line.stamp - before.stamp:g} s after the previous one",
                log,
                line,
                0.75,
            )
            return


def line_sign(kind: Kind, what: str, log: Log, line: LogLine, weight: float) -> Sign:
    return Sign(kind, what, f"{log.name}:{line.number}", line.text.strip()[:160], weight)
