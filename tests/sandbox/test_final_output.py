"""Output is kept however code ends and whatever it prints; code may start fresh processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main

pytestmark = pytest.mark.slow

BODY = """
import asyncio
async def answer():
    await asyncio.sleep(0.001)
    return 42
print("the answer is", asyncio.run(answer()), asyncio.run(answer()))
print("one", "\\ud83d", "more")
print("no newline at the end", end="")
"""
ENDS = {"abort": ("os.abort()", "SIGABRT"), "segfault": ("ctypes.string_at(0)", "SIGSEGV")}
SAID = "the answer is 42 42\none \\ud83d more\nno newline at the end"


@pytest.mark.parametrize(
    ("as_cell", "end", "isolation"),
    [
        (False, "abort", "none"),
        (False, "segfault", "auto"),
        (True, "abort", "auto"),
        (True, "segfault", "none"),
        pytest.param(False, "abort", "auto", marks=pytest.mark.bench),
        pytest.param(True, "segfault", "auto", marks=pytest.mark.bench),
    ],
)
def test_what_was_printed_before_a_crash_is_kept_to_the_last_character(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_cell: bool,
    end: str,
    isolation: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    crash, signal = ENDS[end]
    code = f"import ctypes, os\n{BODY}\ndef crash():\n    {crash}\n"
    code += "import lab\nlab.measure(lambda cell: crash())\n" if as_cell else "crash()\n"
    (tmp_path / "crashes.py").write_text(code)
    main(
        [
            "exec",
            "crashes.py",
            "--json",
            "--set",
            f"sandbox.isolation={isolation}",
            *(("--cells", "m", "--on", "digits") if as_cell else ()),
        ]
    )
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert SAID in found["stdout_tail"]
    failure = found["failure"]
    assert failure["kind"] == "died" and signal in failure["message"]
    assert f'File "crashes.py", line {code.splitlines().index(f"    {crash}") + 1} in crash' in failure["traceback"]
    assert "kernel_side" not in failure["traceback"]
