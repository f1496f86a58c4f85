"""The guarantees of kernels, tested on real ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labwright.record.schema.nodes import Failure
from labwright.sandbox import kernels
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation import bubblewrap, processes
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE, IsolationStatus, KernelConfig
from labwright.sandbox.job import ExecutorError, Job
from labwright.sandbox.kernels import Kernel
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


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("def broken(:\n    pass\n", "syntax", "experiment.py, line 1"),
        pytest.param("import no_such_module_here\n", "import", "no_such_module_here", marks=pytest.mark.bench),
        ("import numpy as np\nnp.ones((3, 4)) @ np.ones((3, 4))\n", "shape", "mismatch"),
        ("import os\nprint('x')\nos._exit(3)\n", "died", "exit code 3"),
        pytest.param("import ctypes\nctypes.string_at(0)\n", "died", "SIGSEGV", marks=pytest.mark.bench),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "died", "SIGKILL"),
        ("import sys\nsys.exit('gave up')\n", "other", "gave up"),
        ("import sys\nsys.exit(0)\nraise ValueError\n", "no measurement", "lab.submit"),
    ],
)
async def test_failures_are_told_apart(bench: KernelBench, code: str, kind: str, words: str) -> None:
    outcome = await bench.run(code)
    failure = failure_of(outcome.failure)
    assert failure.kind == kind
    assert words in failure.message


async def test_a_dead_kernel_is_noticed_at_once(bench: KernelBench) -> None:
    outcome = await bench.run("import os, time\nopen('t', 'w').write(str(time.time()))\nos._exit(1)\n")
    died = float((bench.folder / "t").read_text())
    assert failure_of(outcome.failure).kind == "died"
    assert time.time() - died < 20


async def test_a_crash_names_the_line(bench: KernelBench) -> None:
    outcome = await bench.run("import ctypes\n\ndef crash():\n    ctypes.string_at(0)\n\ncrash()\n")
    trace = failure_of(outcome.failure).traceback
    assert 'File "experiment.py", line 4 in crash' in trace
    assert "ipykernel" not in trace


async def test_at_the_limit_the_code_is_interrupted(bench: KernelBench) -> None:
    outcome = await bench.run("import time\nprint('begun', flush=True)\ntime.sleep(60)\n", timeout=0.5)
    failure = failure_of(outcome.failure)
    assert failure.kind == "timeout" and "0.5 s" in failure.message and "interrupted" in failure.message
    assert "time.sleep(60)" in failure.traceback
    assert outcome.stdout_tail == "begun\n"
    assert 0.5 <= outcome.seconds < 40


async def test_code_that_swallows_the_interrupt_is_killed_with_its_children(bench: KernelBench) -> None:
    outcome = await bench.run(
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sh', '-c', 'trap \"\" INT; sleep 300 & wait'])\n"
        "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "while True:\n    try:\n        time.sleep(10)\n    except BaseException:\n        print('no', flush=True)\n",
        timeout=0.7,
    )
    failure = failure_of(outcome.failure)
    assert failure.kind == "timeout" and "killed" in failure.message
    assert outcome.seconds < 60
    for pid in (bench.folder / "pids").read_text().split():
        assert is_gone(int(pid))


async def test_nothing_is_left_running_after_a_script_ended_well(bench: KernelBench) -> None:
    await bench.run(
        "import subprocess\nchild = subprocess.Popen(['sleep', '300'])\nopen('pid', 'w').write(str(child.pid))\n"
    )
    assert is_gone(int((bench.folder / "pid").read_text()))


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


async def test_a_start_that_is_cancelled_as_the_kernel_answers_is_cancelled(
    bench: KernelBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancel_and_answer(*_: object) -> dict[str, Any]:
        starting.cancel()
        return {}

    monkeypatch.setattr(Kernel, "wait_for_reply", cancel_and_answer)
    kernel = Kernel(tmp_path, config=bench.executor.config)
    starting = asyncio.create_task(kernel.start())
    await asyncio.wait({starting})
    kernel.kill()
    assert starting.cancelled()


async def test_closing_ends_what_runs(bench: KernelBench) -> None:
    task = asyncio.create_task(bench.run("import time\nopen('begun', 'w').close()\ntime.sleep(60)\n"))
    await asyncio.to_thread(holds_eventually, lambda: any(bench.folder.rglob("begun")))
    await bench.executor.close()
    with pytest.raises(ExecutorError, match="closed"):
        await task
    with pytest.raises(ExecutorError, match="closed"):
        await bench.run("print()")


async def test_output_is_drained_and_capped(bench: KernelBench) -> None:
    outcome = await bench.run("print('first')\nfor i in range(200_000):\n    print('x' * 100)\nprint('last')\n")
    kept = (bench.folder / "stdout.txt").read_text()
    assert kept.startswith("first\n") and kept.endswith("last\n")
    assert 200_000 <= len(kept) < 200_200
    assert "characters of output left out" in kept
    lines = outcome.stdout_tail.splitlines()
    assert 3900 < len(outcome.stdout_tail) <= 4000 and set(lines) == {"x" * 100, "last"}  # whole lines


async def test_only_an_allow_list_of_the_environment_reaches_the_code(
    bench: KernelBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("SOME_TOKEN", "sk-planted")
    outcome = await bench.run(
        "import os\nprint('sk-planted' in str(dict(os.environ)), os.environ['HOME'] == os.getcwd())\n"
        "print(*(os.environ[name] for name in ('PYTHONHASHSEED', 'OMP_NUM_THREADS', 'MPLBACKEND')))\n"
        "print(open(f'/proc/{os.getpid()}/environ').read().count('sk-planted'))\n"
    )
    assert outcome.stdout_tail == "False True\n0 1 Agg\n0\n"


async def test_of_ours_only_lab_can_be_imported(bench: KernelBench) -> None:
    outcome = await bench.run(
        "import importlib, subprocess, sys\n"
        "for name in ('labwright', 'labwright.record', 'labwright.record.schema', 'bootstrap'):\n"
        "    try:\n        importlib.import_module(name)\n        print('found', name)\n"
        "    except ModuleNotFoundError as error:\n        assert 'lab' in str(error), error\n"
        "import models, inspector_like, lab\nprint(models.MINE, lab.seed)\n"
        "print(subprocess.run([sys.executable, '-c', 'import labwright'], capture_output=True).returncode)\n",
        beside={"models.py": "MINE = 'my own'\n", "inspector_like.py": ""},
        seed=5,
    )
    assert outcome.stdout_tail == "my own 5\n1\n"


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


@pytest.mark.parametrize(
    "source", [{"numpy.py": "pi = 3\n"}, {"numpy/__init__.py": "pi = 3\n"}, {"lab.py": "pi = 3\n"}]
)
async def test_a_file_with_the_name_of_a_module_that_is_there_already_is_found(
    bench: KernelBench, source: dict[str, str]
) -> None:
    [name] = {file.partition("/")[0].removesuffix(".py") for file in source}
    outcome = await bench.run(f"import {name}\nprint({name}.pi)\n", beside=source)
    assert outcome.stdout_tail == "3\n"


async def test_a_module_that_speaks_when_it_is_imported_is_not_preloaded(
    bench: KernelBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that imports it must see the output."""
    monkeypatch.setitem(kernels.PRELOADED_MODULES, "numpy", ("this",))
    outcome = await bench.run("import numpy\nimport this\n")
    assert outcome.stdout_tail.startswith("The Zen of Python")
    assert "importing lab, this printed: The Zen of Python" in bench.executor.runner.preload_fault


async def test_an_interpreter_that_does_not_start_is_an_error_of_the_executor(
    store: DatasetStore, tmp_path: Path
) -> None:
    job = Job(name="x", folder=tmp_path / "job", source={"experiment.py": ""})
    for python in ("/no/such/python", "/bin/false"):
        settings = SETTINGS.model_copy(update={"python": python})
        executor = LocalExecutor(1, store.views, labels=store.labels, settings=settings, cache=store.cache)
        with pytest.raises(ExecutorError, match=python):
            await run_job(executor, job)


async def test_sockets_fit_wherever_the_run_is(store: DatasetStore, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    bench = KernelBench(LocalExecutor(1, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache), deep)
    scratch = (await bench.run("import os\nprint(os.environ['TMPDIR'])\n")).stdout_tail.strip()
    assert scratch and not Path(scratch).exists()


async def test_a_bubblewrap_that_says_nothing_is_waited_for_within_a_limit(
    store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "bwrap"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    # as one does that waits for a mount that does not answer
    for module in (bubblewrap, processes):
        monkeypatch.setattr(module, "BWRAP_PROGRAM", str(hanging))
    monkeypatch.setattr(processes, "_INFO_WAIT_SECONDS", 0.2)
    settings = SETTINGS.model_copy(update={"start_timeout": 0.5})
    (tmp_path / "job").mkdir()
    kernel = Kernel(tmp_path / "job", config=KernelConfig(settings, IsolationStatus(is_on=True), store.cache))
    with pytest.raises(ExecutorError, match=r"was ready within 0\.5 s \(sandbox\.start_timeout\)"):
        await kernel.start()
    pid = kernel.pid
    kernel.kill()
    assert is_gone(pid)
