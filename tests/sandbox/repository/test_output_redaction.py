"""Output lines that reveal test results are redacted, and no others."""

from __future__ import annotations

import pytest

from labwright.sandbox.repository.command import WITHHELD_LINE, OutputRedactor


@pytest.mark.parametrize("line", ["test acc: 0.8123", "epoch 3, 0.5 acc", "it is 81.23 %", "0.812"])
def test_what_tells_the_result_is_withheld(line: str) -> None:
    hidden = OutputRedactor.from_metric("metrics.json:test.acc", ["TEST RESULT"]).with_values(0.81234)
    assert hidden.redact(f"before\n{line}\nafter\n") == f"before\n{WITHHELD_LINE}\nafter\n"


@pytest.mark.parametrize(
    "line", ["loss 0.3", "accelerated by 3", "acc", "epoch 81 of 100", "0.80", "0.8", "val 0.7123"]
)
def test_what_does_not_is_shown(line: str) -> None:
    assert OutputRedactor.from_metric("metrics.json:test.acc", []).with_values(0.81234).redact(line) == line


@pytest.mark.parametrize(
    "before", ["10%\r50%\r100%\n", "epoch 1\x0cmore\x0cmore\n", "a\x85b\u2028c\n", "a\r\nb\r\n", ""]
)
def test_a_cover_stays_where_the_result_is_whatever_ended_lines_before(before: str) -> None:
    hidden = OutputRedactor.from_metric(r"stdout:TEST RESULTS\n+acc ([0-9.]+)", []).with_values(0.9)
    shown = hidden.redact(f"{before}TEST RESULTS\nacc 0.9\ndone\n")
    assert shown.endswith(f"{WITHHELD_LINE}\n{WITHHELD_LINE}\ndone\n") and "acc" not in shown
    assert shown.count("\n") == len(before.splitlines()) + 3


@pytest.mark.parametrize(
    "told",
    [
        "0.8\x1b[1m123\x1b[0m",
        "0.9999\r0.8123",
        "\uff10.\uff18\uff11\uff12\uff13",
        "0,8123",
        "-0.8123",
        "value:0.8123\x0cnext",
        "81.2%",
    ],
)
def test_a_result_is_withheld_in_every_usual_notation(told: str) -> None:
    hidden = OutputRedactor.from_metric("metrics.json:test.acc", []).with_values(0.8123)
    shown = hidden.redact(f"before\n{told}\nafter\n")
    assert shown.startswith("before\n") and shown.endswith("\nafter\n") and WITHHELD_LINE in shown
    assert "8" not in shown and "123" not in shown and "\u0668" not in shown, shown
