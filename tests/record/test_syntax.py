"""Trees of Python source, made in several threads at once, by us and by libraries."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Generator

import pytest

from labwright.record import python_syntax

SOURCE = "\n".join(
    f"def f{k}(a, b):\n    return [a[{k}] + g(b=a, c=(b, {{1: a}})) for a in b if a]" for k in range(300)
)


class Knot:
    """Garbage whose end runs Python code, so that another thread may have its turn within the making of a tree."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(2000):
            pass


@pytest.fixture
def restless() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def failures(seconds: float) -> list[str]:
    """What goes wrong while threads make trees, ours through `parse`, a library's through `ast.literal_eval`."""
    ends, failed = time.monotonic() + seconds, list[str]()

    def ours() -> None:
        while time.monotonic() < ends:
            for _ in range(20):
                Knot()
            try:
                python_syntax.parse_python(SOURCE)
            except SystemError as error:
                failed.append(str(error))

    def theirs() -> None:
        while time.monotonic() < ends:
            try:
                ast.literal_eval("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }")
            except SystemError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=work) for work in (ours, ours, theirs, theirs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


@pytest.mark.slow
def test_trees_are_made_one_at_a_time(restless: None) -> None:
    python_syntax.serialise_parsing()
    assert failures(1.2) == []
    assert isinstance(ast.parse("1 + 1", mode="eval"), ast.Expression)
    with pytest.raises(SyntaxError):
        python_syntax.parse_python("def")


@pytest.mark.parametrize("text", ["x = " + "-" * 100_000 + "1", "x = 1\0", "x = " + "(" * 5000, "x = " + "9" * 5000])
def test_what_cannot_be_parsed_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        python_syntax.parse_python(text)
    assert not python_syntax.collect_strings(text) and not python_syntax.collect_constants(text)
    assert python_syntax.collect_reads(text) is None
