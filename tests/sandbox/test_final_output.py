"""Output is kept however code ends and whatever it prints; code may start fresh processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.record.schema.nodes import Cell
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job
from tests.jobs import cell_tasks, run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore, KernelBench

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
KEPT = {
    "exit in a thread": (
        "t = threading.Thread(target=lambda: (print('in'), sys.exit(3))); t.start(); t.join(); print('after')",
        ["first", "in", "after"],
        None,
    ),
    "process exit in a thread": (
        "t = threading.Thread(target=lambda: (print('in', end=''), os._exit(4))); t.start(); t.join()",
        ["first", "in"],
        "the process ended with exit code 4",
    ),
    "killed": ("print('x', end=''); os.kill(os.getpid(), 9)", ["first", "x"], "SIGKILL"),
    "closed stdout": ("print('x'); sys.stdout.close()", ["first", "x"], None),
    "a pipe that nobody reads": (
        "a, b = os.pipe(); os.close(a); kept = open(b, 'w'); kept.write('z'); print('x')",
        ["first", "x"],
        None,
    ),
    "surrogates everywhere": (
        "sys.stderr.write('e\\ud83de\\n'); logging.warning('w\\ud83dw'); raise ValueError('v\\ud83dv')",
        ["first", "e\\ud83de", "WARNING:root:w\\ud83dw"],
        "ValueError: v?v",
    ),
    "bytes": ("sys.stdout.buffer.write(b'raw\\xff'); print('!')", ["first", "raw\ufffd!"], None),
    "loops": (
        "async def f(): return 3\nloop = asyncio.new_event_loop()\n"
        "print(loop.run_until_complete(f()), asyncio.run(f()))",
        ["first", "3 3"],
        None,
    ),
    "a child of a loop": (
        "async def f(): return await (await asyncio.create_subprocess_exec('echo', 'sub')).wait()\nasyncio.run(f())",
        ["first", "sub"],
        None,
    ),
}
HEAD = "import asyncio, logging, os, sys, threading\nprint('first')\n"
CELL = """
import lab
async def run(cell):
    await asyncio.sleep(0)
    lab.submit(split="validation", predictions=[0] * len(lab.data(cell.dataset).validation.x))
    print("submitted")
lab.measure(run)
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


async def test_each_way_to_end_keeps_the_output_and_costs_no_more_than_it_must(
    store: DatasetStore, tmp_path: Path
) -> None:
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache)
    found: dict[str, tuple[list[str], str | None]] = {}
    try:
        for number, (name, (code, _, _)) in enumerate(KEPT.items()):
            outcome = await KernelBench(executor, tmp_path / str(number)).run(HEAD + code)
            failure = outcome.failure
            assert failure is not None
            found[name] = (
                outcome.stdout_tail.splitlines(),
                None if failure.kind == "no measurement" else failure.message,
            )
        job = Job(
            name="cell",
            folder=tmp_path / "cell",
            source={"experiment.py": "import asyncio" + CELL},
            datasets=("digits",),
            timeout=60.0,
            cells=cell_tasks([Cell(dataset="digits", arm="m")]),
        )
        measured = await run_job(executor, job)
    finally:
        await executor.close()
    assert {name: lines for name, (lines, _) in found.items()} == {name: lines for name, (_, lines, _) in KEPT.items()}
    for name, (_, _, words) in KEPT.items():
        message = found[name][1]
        assert message is None if words is None else words in (message or ""), name
    (kept,) = measured.folders.values()
    assert measured.failure is None and "submitted" in kept.result.stdout_tail
