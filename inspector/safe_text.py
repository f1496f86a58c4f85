"""Make untrusted text (model output, idea titles, code output) safe for a terminal.

Rich markup is not parsed, because every view builds `rich.text.Text`; this module removes control characters (mainly
ANSI escapes) and characters that change the writing direction.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_SPACE = re.compile(r"\s+")
_UNUSUAL = re.compile(r"[^\n\t\x20-\x7e]")


def to_plain(text: str) -> str:
    """Return one line of printable characters; escape sequences are removed, other control characters become spaces."""
    text = _ESCAPES.sub("", text)
    shown = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else c for c in text)
    return _SPACE.sub(" ", shown).strip()


def to_printable(text: str) -> str:
    """Return the text with its lines, without escape sequences, control characters and direction changes."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _UNUSUAL.sub(lambda c: " " if unicodedata.category(c[0]) in ("Cc", "Cf", "Cs", "Co") else c[0], text)


def shorten(text: str, width: int) -> str:
    """Return the result of `to_plain`, cut to a width in characters."""
    line = to_plain(text)
    return line if len(line) <= width else line[: max(0, width - 3)].rstrip() + "..."


def to_plain_lines(text: str, max_lines: int) -> tuple[str, ...]:
    """Return the last lines of a string, safe for a terminal and indented as before; the first line counts omitted
    ones.
    """
    lines = [line for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    shown = [" " * (len(line) - len(line.lstrip(" "))) + shorten(line, 200) for line in lines[-max_lines:]]
    left = len(lines) - len(shown)
    return (f"... {left} earlier lines", *shown) if left else tuple(shown)


def format_duration(seconds: float) -> str:
    """Format seconds as 4.2s, 3m12s or 2h05m."""
    if seconds < 59.95:
        return f"{max(0.0, seconds):.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def format_clock_time(at: float) -> str:
    """Format seconds since the epoch as local time, with the date unless it is today: 14:05:10."""
    then = datetime.fromtimestamp(at)
    return f"{then:%H:%M:%S}" if then.date() == datetime.now().date() else f"{then:%Y-%m-%d %H:%M}"


def format_age(seconds: float) -> str:
    """Format how long ago something happened, as 4.2s, 3m12s, 2h05m or 5 days."""
    return format_duration(seconds) if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def format_size(number: int) -> str:
    """Format a number of bytes as 950 B, 12 kB or 4.5 MB."""
    return f"{number} B" if number < 1000 else f"{number / 1e3:.0f} kB" if number < 1e6 else f"{number / 1e6:.1f} MB"


def format_count(number: int) -> str:
    """Format a number of tokens as 950, 12.3k or 4.5M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1e6:.1f}M"


def format_cached(tokens: int, usd: float) -> str:
    """Format the cached part of a prompt as ` (8.1k cached, $0.02)`; empty if there is none."""
    return f" ({format_count(tokens)} cached, {format_dollars(usd, 0)})" if tokens else ""


def format_dollars(usd: float, unpriced: int) -> str:
    """Format a cost in USD, including the number of calls with unknown price."""
    known = f"${usd:.2f}" if usd < 100 else f"${usd:.0f}"
    return f"{known} + {unpriced} unpriced" if unpriced else known
