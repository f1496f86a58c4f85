"""The edits by which one program becomes another, as an author hands them in; `record.source_edits` makes them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from labwright.record.source_edits import SourceEdit, TextReplacement, WholeFile, find_occurrences


def compute_changes(old: str, new: str) -> tuple[TextReplacement, ...]:
    """Changes in whole lines that make `new` of `old`; one of everything where no line stays. `old` is not empty."""
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
    """The few lines around some that occur once, one above and one below in turn; all of them where none do."""
    text, up = "".join(lines), True
    while len(find_occurrences(text, "".join(lines[low:high]))) != 1 and (low > 0 or high < len(lines)):
        above = low > 0 and (up or high == len(lines))
        low, high, up = (low - 1, high, False) if above else (low, high + 1, True)
    return low, high


def compute_edits(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[tuple[WholeFile, ...], tuple[SourceEdit, ...], tuple[str, ...]]:
    """Files, edits and deletions by which `applied` makes one tree of another: of each file what is shorter."""
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
