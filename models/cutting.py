"""How much of a text a prompt shows.

What binds is shown whole: the idea's claim, the data plan, what a node must measure, code. What a model wrote in answer
to a length that it was told (`LENGTHS`) is shown whole as well. Other prose is cut at the end of a sentence, and
what a machine printed in its middle, each with a mark.
"""

from __future__ import annotations

import re

LENGTHS = {
    "plan": 1200,
    "analysis": 1800,
    "next_step": 600,
    "description": 600,
    "tried": 700,
    "found": 1800,
    "held": 1000,
    "next": 500,
    "reasons": 1000,
    "notes": 6000,
}
"""Characters that whoever writes a field is asked to keep to."""

LEEWAY = 1.5
"""How far beyond its length a field is still shown whole."""

WORTH = 0.1
"""The share of a text that a cut in its middle must save."""

_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)")


def middle(text: str, limit: int, *, worth: float = WORTH) -> str:
    """The text, or its head and tail with a mark between that says how much was left out; about `limit` characters.

    Whole where the cut would save less than the share `worth` of it.
    """
    left = len(text) - limit
    if left < worth * len(text) or left <= 0:
        return text
    head, tail = limit * 2 // 5, limit - limit * 2 // 5
    return f"{text[:head]}\n[... {left} characters left out here ...]\n{text[-tail:]}"


def flat(text: str) -> str:
    """The whole text on one line."""
    return " ".join(text.split())


def oneline(text: str, limit: int = 200) -> str:
    """The text on one line of at most `limit` characters: for names and titles; prose takes `sentences`."""
    shown = flat(text)
    return shown if len(shown) <= limit else shown[: limit - 4] + " ..."


def sentences(text: str, limit: int) -> str:
    """The text on one line, or its first whole sentences of at most `limit` characters and a mark.

    Where not even the first one fits, it is cut between words.
    """
    shown = flat(text)
    if len(shown) <= limit:
        return shown
    ends = [match.end() for match in _END.finditer(shown, 0, limit)]
    cut = ends[-1] if ends else max(shown.rfind(" ", 0, limit), 0) or limit
    return f"{shown[:cut].rstrip()} [... {len(shown) - cut} characters left out]"


def written(text: str, field: str) -> str:
    """What was written for a field, on one line: whole, unless it is far beyond the length that was asked for."""
    return sentences(text, round(LEEWAY * LENGTHS[field]))


def fence(text: str, limit: int | None = None, language: str = "") -> str:
    """The text as a fenced block, cut in the middle where there is a limit; the fence is longer than any within."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    body = text.rstrip()
    return f"{ticks}{language}\n{body if limit is None else middle(body, limit)}\n{ticks}"


def code(text: str) -> str:
    """A whole Python file as a fenced block."""
    return fence(text, language="python")
