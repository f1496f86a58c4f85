"""The guarantees of kernels, tested on real ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labwright.record.schema.nodes import Failure
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.job import ExecutorError, Job
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore, KernelBench, holds_eventually, is_gone

pytestmark = pytest.mark.slow


def failure_of(failure: Failure | None) -> Failure:
    assert failure is not None
    return failure


async def test_a_script_finds_what_a_script_expects(bench: KernelBench) -> None:
    outcome = await bench.run(
        "from __future__ import annotations\nimport sys, os\nimport side\n"
        "print('hello', __name__, os.path.basename(__file__), len(sys.argv), side.VALUE, os.getcwd() == sys.path[0])\n"
        "left_open = open('note.txt', 'w'); left_open.write('kept')\n'an expression is not echoed'\n",
        beside={"side.py": "VALUE = 7\n"},
    )
    assert outcome.stdout_tail == "hello __main__ experiment.py 1 7 True\n"
    assert failure_of(outcome.failure).kind == "no measurement"
    assert (bench.folder / "note.txt").read_text() == "kept"
    assert (bench.folder / "stdout.txt").read_text() == outcome.stdout_tail
    assert 0 < outcome.seconds < 60


async def test_an_error_comes_with_its_traceback(bench: KernelBench) -> None:
    outcome = await bench.run(
        "def depth(n):\n    if n == 0:\n        return {}['missing']\n    return depth(n - 1)\n"
        "print('before')\ndepth(2)\n"
    )
    failure = failure_of(outcome.failure)
    assert (failure.kind, failure.message) == ("other", "KeyError: 'missing'")
    assert "experiment.py" in failure.traceback and "return {}['missing']" in failure.traceback
    assert "\x1b" not in failure.traceback and str(bench.folder) not in failure.traceback
    assert outcome.stdout_tail == "before\n"
    library: Any = nbformat
    book = library.read(bench.folder / "node.ipynb", as_version=4)
    library.validate(book)
    assert [output["output_type"] for output in book.cells[0].outputs] == ["stream", "error"]
    assert book.cells[0].source.startswith("def depth(n):")


async def test_an_error_may_contain_half_a_character(bench: KernelBench) -> None:
    failure = failure_of((await bench.run("raise ValueError('half \\ud83d')")).failure)
    assert (failure.kind, failure.message) == ("other", "ValueError: half ?")


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("def broken(:\n    pass\n", "syntax", "experiment.py, line 1"),
        pytest.param("import ctypes\nctypes.string_at(0)\n", "died", "SIGSEGV", marks=pytest.mark.bench),
        ("import sys\nsys.exit('gave up')\n", "other", "gave up"),
    ],
)
async def test_failures_are_told_apart(bench: KernelBench, code: str, kind: str, words: str) -> None:
    outcome = await bench.run(code)
    failure = failure_of(outcome.failure)
    assert failure.kind == kind
    assert words in failure.message


async def test_at_the_limit_the_code_is_interrupted(bench: KernelBench) -> None:
    outcome = await bench.run("import time\nprint('begun', flush=True)\ntime.sleep(60)\n", timeout=2.0)
    failure = failure_of(outcome.failure)
    assert failure.kind == "timeout" and "2 s" in failure.message and "interrupted" in failure.message
    assert "time.sleep(60)" in failure.traceback
    assert outcome.stdout_tail == "begun\n"
    assert 2.0 <= outcome.seconds < 40


async def test_cancelling_kills_the_kernel(bench: KernelBench) -> None:
    task = asyncio.create_task(
        bench.run(
            "import os, time\nopen('pid.part', 'w').write(str(os.getpid()))\n"
            "os.rename('pid.part', 'pid')\ntime.sleep(60)\n"
        )
    )
    await asyncio.to_thread(holds_eventually, lambda: any(bench.folder.rglob("pid")))
    (pid_file,) = bench.folder.rglob("pid")
    pid = int(pid_file.read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(pid)
    assert (await bench.run("print('the place is free again')\n")).stdout_tail == "the place is free again\n"


def test_a_regular_installation_is_hidden_too(tmp_path: Path) -> None:
    """Install the package into site-packages, as pip does without -e."""
    shutil.copytree(KERNEL_SIDE, tmp_path / "site" / "labwright" / "sandbox" / "kernel_side")
    (tmp_path / "site" / "labwright" / "__init__.py").write_text("OURS = True\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "models.py").write_text("MINE = True\n")
    path = os.pathsep.join([str(tmp_path / "site" / "labwright" / "sandbox" / "kernel_side"), str(tmp_path / "site")])
    code = (
        "import sys\nsys.meta_path = [one for one in sys.meta_path if 'editable' not in repr(one)]\n"
        "import models; print(models.MINE)\ntry:\n    import labwright\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "job",
        capture_output=True,
        text=True,
        timeout=600,
        env={"PYTHONPATH": path, "LAB_JOB": "any"},
        check=True,
    )
    assert done.stdout == "True\nNo module named 'labwright' (of the harness, only `lab` can be imported)\n"


async def test_a_folder_of_the_experiment_can_have_the_name_of_one_of_ours(bench: KernelBench) -> None:
    outcome = await bench.run("from search.grid import VALUE\nprint(VALUE)\n", beside={"search/grid.py": "VALUE = 3\n"})
    assert outcome.stdout_tail == "3\n"


async def test_an_interpreter_that_does_not_start_is_an_error_of_the_executor(
    store: DatasetStore, tmp_path: Path
) -> None:
    job = Job(name="x", folder=tmp_path / "job", source={"experiment.py": ""})
    for python in ("/no/such/python", "/bin/false"):
        settings = SETTINGS.model_copy(update={"python": python})
        executor = LocalExecutor(1, store.views, labels=store.labels, settings=settings, cache=store.cache)
        with pytest.raises(ExecutorError, match=python):
            await run_job(executor, job)
