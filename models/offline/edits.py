"""Compute the edits that turn one program into another, in the form in which an author submits them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from labwright.record.source_edits import SourceEdit, TextReplacement, WholeFile, find_occurrences


def compute_changes(old: str, new: str) -> tuple[TextReplacement, ...]:
    """Return replacements of whole lines that turn `old` (not empty) into `new`; a single one if no line stays."""
    lines, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    made: list[TextReplacement] = []
    shift = 0
    for tag, a, b, c, d in difflib.SequenceMatcher(None, lines, after, autojunk=False).get_opcodes():
        if tag != "equal":
            low, high = _find_unique_span(lines, a + shift, b + shift)
            into = [*lines[low : a + shift], *after[c:d], *lines[b + shift : high]]
            made.append(TextReplacement(find="".join(lines[low:high]), replace="".join(into)))
            lines[a + shift : b + shift] = after[c:d]
            shift += (d - c) - (b - a)
    return tuple(made)


def _find_unique_span(lines: Sequence[str], low: int, high: int) -> tuple[int, int]:
    """Extend a span alternately above and below until its lines occur once in the text; all lines if they never do."""
    text, up = "".join(lines), True
    while len(find_occurrences(text, "".join(lines[low:high]))) != 1 and (low > 0 or high < len(lines)):
        above = low > 0 and (up or high == len(lines))
        low, high, up = (low - 1, high, False) if above else (low, high + 1, True)
    return low, high


def compute_edits(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[tuple[WholeFile, ...], tuple[SourceEdit, ...], tuple[str, ...]]:
    """Return files, edits and deletions that turn one tree into another: for each file, the shorter form."""
    files: list[WholeFile] = []
    edits: list[SourceEdit] = []
    for path, text in after.items():
        old = before.get(path, "")
        if path in before and old == text:
            continue
        own = (
            [SourceEdit(path=path, find=one.find, replace=one.replace) for one in compute_changes(old, text)]
            if old
            else []
        )
        if own and sum(len(one.find) + len(one.replace) for one in own) < len(text):
            edits += own
        else:
            files.append(WholeFile(path=path, text=text))
    return tuple(files), tuple(edits), tuple(path for path in before if path not in after)
