"""Output lines that reveal test results are redacted, and no others."""

from __future__ import annotations

import pytest

from labwright.sandbox.repository.command import WITHHELD_LINE, OutputRedactor


@pytest.mark.parametrize(
    "line",
    [
        "test acc: 0.8123",
        "ACC=81.2",
        "epoch 3, 0.5 acc",
        "the secret 0.8123",
        "it is 81.23 %",
        "8.123e-01",
        "0.812",
        "TEST RESULT follows",
    ],
)
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
        "0.8\x1b]0;title\x07123",
        "0.9999\r0.8123",
        "50%\r0.8123\r100%",
        "\uff10.\uff18\uff11\uff12\uff13",
        "\u0660.\u0668\u0661\u0662\u0663",
        "0,8123",
        "\u22120.8123",
        "-0.8123",
        "\U0001d7ce.\U0001d7d6\U0001d7cf\U0001d7d0\U0001d7d1",
        "value:0.8123\x0cnext",
        "8123e-4",
        "81.2%",
    ],
)
def test_a_result_is_withheld_in_every_usual_notation(told: str) -> None:
    hidden = OutputRedactor.from_metric("metrics.json:test.acc", []).with_values(0.8123)
    shown = hidden.redact(f"before\n{told}\nafter\n")
    assert shown.startswith("before\n") and shown.endswith("\nafter\n") and WITHHELD_LINE in shown
    assert "8" not in shown and "123" not in shown and "\u0668" not in shown, shown


def test_numbers_beside_each_other_are_no_result() -> None:
    text = "0.1\n0.25\n0.3\n12 13 14\nepoch 8\n123 steps\nloss 0.9\r\nloss 0.7\n10%|# | 1/10\r20%|## | 2/10\rdone\n"
    assert (
        OutputRedactor.from_metric("metrics.json:test.acc", []).with_values(0.8123).redact(text)
        == "\n".join(text.splitlines()) + "\n"
    )


def test_a_match_over_lines_is_withheld_whole() -> None:
    hidden = OutputRedactor.from_metric(r"stdout:final\s+([0-9.]+)", [])
    assert hidden.redact("a\nfinal\n0.5\nb\n") == f"a\n{WITHHELD_LINE}\n{WITHHELD_LINE}\nb\n"
    assert OutputRedactor().redact("final 0.5") == "final 0.5"
