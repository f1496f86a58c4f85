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


def test_declared_values_are_constants_their_entries_and_defaults_of_parameters() -> None:
    function = "def fit(x, steps=200, *, batch=32, name='a', flag=True): ..."
    assert python_syntax.collect_constants("LOW = 0.1\nNOISE = {'none': 0, 'low': LOW}") == {"LOW": 0.1}, "whole or not"
    assert python_syntax.collect_constants("RATES = {'a}b': 1, 'c\\\\d': 2, 'e': 3}") == {"RATES.e": 3}, (
        "no TeX in a key"
    )
    text = f"RATES = {{'sgd': 0.3, 'adam': 0.001}}\nGRID = (0.1, 1)\n{function}"
    assert python_syntax.collect_constants(text) == {"RATES.sgd": 0.3, "RATES.adam": 0.001, "GRID": "0.1, 1"}
    assert python_syntax.collect_defaults(text) == {"steps": 200, "batch": 32}
    assert python_syntax.collect_defaults(f"{text}\ndef test(steps=9): ...") == {"batch": 32}
    assert python_syntax.collect_defaults("def broken(:") == {}
