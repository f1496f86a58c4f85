"""What a program of cells says of itself is read off its source (`record.python_syntax.collect_reads`)."""

from __future__ import annotations

import pytest

from labwright.record.python_syntax import collect_reads


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import lab\nlab.submit('a', 'b', 'c')\n", None),
        ("import lab\ndef run(cell): pass\nlab.measure(run)\n", {}),
        ("import lab as bench\nbench.measure(print, reads={'late': 'early'})\n", {"late": "early"}),
        ("from lab import measure\nmeasure(print, reads=dict(late='early'))\n", {}),
        ("import timer\ntimer.measure(print)\n", None),
        ("import lab\nif True:\n    lab.measure(print, reads={'late': 'early', 3: 'x'})\n", {"late": "early"}),
        ("import lab\nlab.measure(", None),
    ],
    ids=["plain", "no reads", "renamed", "no literal", "another measure", "nested", "does not parse"],
)
def test_reads_are_read_off_the_source(source: str, expected: dict[str, str] | None) -> None:
    assert collect_reads(source) == expected
