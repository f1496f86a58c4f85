"""Show a program as a diff against one that the reader may assume to be sound; used to judge the child of a sound
parent.

The view contains the changed lines, their context, every other line that uses the same names, and the heads of the
enclosing functions; it states how many lines are left out. A mostly new file is shown whole.
"""

from __future__ import annotations

import difflib
import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from labwright.models.prompt_filters import fence, format_files

CONTEXT_LINES = 3
"""Context lines around a changed line."""
MAX_CHANGED_SHARE = 0.6
"""Share of changed lines above which a file is shown whole."""
MAX_LINES_PER_NAME = 20
"""Number of lines that use a name; above it, they are not shown because of that name."""
MIN_GAP_LINES = 3
"""Files shorter than this are shown in full."""
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINITION_HEAD = re.compile(r"\s*(async def|def|class)\s")

DiffLine = tuple[str, str]
"""`+`, `-` or a blank, and the line."""


def format_changes(code: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Format the files of a program under their paths: name unchanged files, show the changed lines of the others."""
    shown = [_format_file(path, text, before.get(path)) for path, text in code.items()]
    return "\n\n".join([*shown, *(f"{path}: removed" for path in before if path not in code)])


def _format_file(path: str, text: str, old: str | None) -> str:
    if text == old:
        return f"{path}: unchanged, {len(text.splitlines())} lines"
    if old is not None and path.endswith(".py"):
        lines = _diff_lines(old.splitlines(), text.splitlines())
        changes = _join_shown_lines(lines, _choose_shown_lines(lines))
        if len(changes) < MAX_CHANGED_SHARE * len(text):
            return f"{path}, changed lines marked by + and -:\n{fence(changes, language='diff')}"
    return format_files({path: text})


def _diff_lines(old: Sequence[str], new: Sequence[str]) -> list[DiffLine]:
    found: list[DiffLine] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [(" ", line) for line in new[c:d]]
        else:
            found += [*(("-", line) for line in old[a:b]), *(("+", line) for line in new[c:d])]
    return found


def _choose_shown_lines(lines: Sequence[DiffLine]) -> list[bool]:
    """Return for each line whether it is shown."""
    names = [set(_NAME.findall(line)) - set(keyword.kwlist) for _, line in lines]
    often = Counter(name for own in names for name in own)
    moved = {
        name
        for own, (mark, _) in zip(names, lines, strict=True)
        if mark != " "
        for name in own
        if often[name] <= MAX_LINES_PER_NAME
    }
    changed = [k for k, (mark, _) in enumerate(lines) if mark != " "]
    near = {k + step for k in changed for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
    kept = [k in near or bool(own & moved) for k, own in enumerate(names)]
    for k in range(len(lines) - 1, -1, -1):
        if kept[k] and (head := _find_head(lines, k)) is not None:
            kept[head] = True
    return kept


def _find_head(lines: Sequence[DiffLine], k: int) -> int | None:
    """Return the index of the line that begins the function or class around a line."""
    indent = _measure_indent(lines[k][1])
    return (
        next(
            (
                at
                for at in range(k - 1, -1, -1)
                if _DEFINITION_HEAD.match(lines[at][1]) and _measure_indent(lines[at][1]) < indent
            ),
            None,
        )
        if indent
        else None
    )


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_shown_lines(lines: Sequence[DiffLine], kept: Sequence[bool]) -> str:
    shown: list[str] = []
    k = 0
    while k < len(lines):
        end = next((at for at in range(k, len(lines)) if kept[at]), len(lines))
        if end - k >= MIN_GAP_LINES:
            shown.append(f"[... {end - k} unchanged lines ...]")
            k = end
        else:
            shown.append("".join(lines[k]))
            k += 1
    return "\n".join(shown)
