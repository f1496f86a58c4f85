"""Prepare code for its reader: without comments and docstrings, at unchanged line numbers."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Mapping

from labwright.record.python_syntax import parse_python
from labwright.record.schema.code_reading import CodeDoubt

MAX_CITED_LINES = 20
"""Maximum lines that one doubt may cite after the first."""


def strip_comments(text: str) -> str:
    """Remove comments and docstrings, keeping line numbers; return the source unchanged if it is not Python."""
    try:
        alone = [
            node
            for node in ast.walk(parse_python(text))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return text
    lines = text.splitlines()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in alone:
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[row - 1] = ""
    return "\n".join(lines)


def number_lines(text: str) -> str:
    """Return the nonempty lines, each with its number."""
    return "\n".join(f"{number:4d} {line}" for number, line in enumerate(text.splitlines(), 1) if line.strip())


def keep_verified_doubts(doubts: Iterable[CodeDoubt], code: Mapping[str, str]) -> tuple[CodeDoubt, ...]:
    """Return the doubts whose quote matches the cited lines, ignoring spaces.

    `code` is without comments, by path.
    """
    return tuple(one for one in doubts if _quote_is_at_lines(one, code.get(one.file, "")))


def _quote_is_at_lines(doubt: CodeDoubt, text: str) -> bool:
    lines = text.splitlines()
    if not doubt.first <= doubt.last <= min(len(lines), doubt.first + MAX_CITED_LINES):
        return False
    quoted = "".join(doubt.quote.split())
    return bool(quoted) and quoted in "".join("".join(lines[doubt.first - 1 : doubt.last]).split())
