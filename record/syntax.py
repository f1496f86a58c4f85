"""Python source as a syntax tree, from any thread.

Two threads that make a tree at once make CPython 3.11 fail with a SystemError ("AST constructor recursion depth
mismatch"); nodes are read and checked in several.

Source: github.com/python/cpython, issue 106905.
"""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()


def parse(source: str) -> ast.Module:
    """The tree of some source. Raises what `ast.parse` raises: `SyntaxError`, `ValueError`, `RecursionError`."""
    with _LOCK:
        return ast.parse(source)
