"""Trees of Python source, made in several threads at once, by us and by libraries."""

from __future__ import annotations

import pytest

from labwright.record import python_syntax

SOURCE = "\n".join(
    f"def f{k}(a, b):\n    return [a[{k}] + g(b=a, c=(b, {{1: a}})) for a in b if a]" for k in range(300)
)


@pytest.mark.parametrize("text", ["x = " + "-" * 100_000 + "1", "x = 1\0", "x = " + "(" * 5000, "x = " + "9" * 5000])
def test_what_cannot_be_parsed_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        python_syntax.parse_python(text)
    assert not python_syntax.collect_strings(text) and not python_syntax.collect_constants(text)
    assert python_syntax.collect_reads(text) is None
