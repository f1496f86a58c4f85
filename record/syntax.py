"""Python source as a syntax tree, from any thread.

Two threads that make a tree at once can make CPython 3.11 fail with a SystemError ("AST constructor recursion depth
mismatch"); nodes are read and checked in several, and libraries make trees too (numpy, of the header of every array).

Source: github.com/python/cpython, issue 106905.
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_LOCK = threading.RLock()
_PARSE = ast.parse


def parse(source: str) -> ast.Module:
    """The tree of some source. Raises what `ast.parse` raises: `SyntaxError`, `ValueError`, `RecursionError`."""
    with _LOCK:
        return _PARSE(source)


def one_at_a_time() -> None:
    """From now on every tree of this process is made alone: `ast.parse` waits its turn, and so `ast.literal_eval`."""
    ast.parse = _in_turn


def _in_turn(*args: Any, **options: Any) -> Any:
    with _LOCK:
        return _PARSE(*args, **options)
