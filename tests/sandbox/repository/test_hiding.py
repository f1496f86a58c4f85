"""Lines that tell test results are withheld from output, and no others."""

from __future__ import annotations

import pytest

from sandbox.repository.hiding import WITHHELD, Hidden


@pytest.mark.parametrize("line", [
    "test acc: 0.8123", "ACC=81.2", "epoch 3, 0.5 acc", "the secret 0.8123", "it is 81.23 %", "8.123e-01", "0.812",
    "TEST RESULT follows",
])
def test_what_tells_the_result_is_withheld(line: str) -> None:
    hidden = Hidden.of("metrics.json:test.acc", ["TEST RESULT"]).knowing(0.81234)
    assert hidden.shown(f"before\n{line}\nafter\n") == f"before\n{WITHHELD}\nafter\n"


@pytest.mark.parametrize("line", [
    "loss 0.3", "accelerated by 3", "acc", "epoch 81 of 100", "0.80", "0.8", "val 0.7123"])
def test_what_does_not_is_shown(line: str) -> None:
    assert Hidden.of("metrics.json:test.acc", []).knowing(0.81234).shown(line) == line


def test_a_match_over_lines_is_withheld_whole() -> None:
    hidden = Hidden.of(r"stdout:final\s+([0-9.]+)", [])
    assert hidden.shown("a\nfinal\n0.5\nb\n") == f"a\n{WITHHELD}\n{WITHHELD}\nb\n"
    assert Hidden().shown("final 0.5") == "final 0.5"
