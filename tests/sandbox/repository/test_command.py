"""A repository command in the sandbox: what it sees, how it ends, and its outcome."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.command import (
    CommandEnvironment,
    CommandJob,
    CommandOutcome,
    check_command_environment,
)
from labwright.sandbox.settings import SandboxSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
GROUND = CommandEnvironment(sys.executable)


@pytest_asyncio.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    made = LocalExecutor(
        2,
        tmp_path / "views",
        labels=tmp_path / "labels",
        cache=tmp_path / "cache",
        settings=SandboxSettings(grace=3.0, memory_gb=1.0, disk_gb=0.05, tasks=64),
    )
    yield made
    await made.close()


def job(
    tmp_path: Path,
    code: str,
    *,
    timeout: float = 20.0,
    ground: CommandEnvironment = GROUND,
    env: dict[str, str] | None = None,
) -> CommandJob:
    folder = tmp_path / "checkout"
    folder.mkdir(parents=True, exist_ok=True)
    return CommandJob("a run", folder, ("python", "-c", code), ground, timeout, env=env or {})


async def run(executor: LocalExecutor, made: CommandJob) -> CommandOutcome:
    return await executor.run_command(made)


async def test_it_sees_its_checkout_and_little_else(
    executor: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    (tmp_path / "secret.txt").write_text("secret")
    code = f"""
import os, pathlib, socket
print(os.getcwd(), "key" if "OPENAI_API_KEY" in os.environ else "no key",
      os.path.exists({str(tmp_path / "secret.txt")!r}))
print(len([name for name in os.listdir("/proc") if name.isdigit()]) < 8, os.environ["WANDB_MODE"])
for place in ("/etc/x", "/usr/x", {str(Path(sys.prefix) / "x")!r}):
    try:
        open(place, "w"); print("written", place)
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", 22), 1); print("network")
except ConnectionRefusedError:
    print("loopback of its own")
pathlib.Path("made").write_text("x")
"""
    outcome = await run(executor, job(tmp_path, code))
    assert outcome.failure is None
    assert outcome.stdout.split("\n")[:3] == ["/experiment no key False", "True offline", "loopback of its own"]
    assert (tmp_path / "checkout" / "made").read_text() == "x"


async def test_failures_say_what_stopped_it(executor: LocalExecutor, tmp_path: Path) -> None:
    raised = await run(executor, job(tmp_path, "import nothing_such"))
    assert raised.failure is not None and raised.failure.kind == "import"
    assert raised.failure.message == "ModuleNotFoundError: No module named 'nothing_such'"
    left = await run(
        executor, job(tmp_path, "import sys; print('out'); print('bad option', file=sys.stderr); sys.exit(2)")
    )
    assert left.failure is not None and left.failure.message == "it ended with exit code 2: bad option"
    assert left.stdout == "out\n" and "bad option" in left.output
    killed = await run(executor, job(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    assert killed.failure is not None and killed.failure.kind == "died" and "SIGKILL" in killed.failure.message
    lacking = await run(executor, replace(job(tmp_path, ""), argv=("no-such-program",)))
    assert lacking.failure is not None and "exit code 127" in lacking.failure.message


async def test_a_limit_ends_it_and_all_that_it_started(executor: LocalExecutor, tmp_path: Path) -> None:
    tidies = (
        "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('tidied', flush=True)\n    raise"
    )
    ignores = (
        "import os, signal, subprocess, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '61'], start_new_session=True)\nprint('up', flush=True)\ntime.sleep(60)"
    )
    handled, stubborn = await asyncio.gather(
        run(executor, job(tmp_path / "handled", tidies, timeout=4.0)),
        run(executor, job(tmp_path / "stubborn", ignores, timeout=4.0)),
    )
    assert handled.failure is not None and handled.failure.kind == "timeout" and "tidied" in handled.stdout
    assert stubborn.failure is not None and stubborn.failure.kind == "timeout" and stubborn.stdout == "up\n"
    assert not _running("sleep 61")


async def test_memory_tasks_files_and_output_are_bounded(executor: LocalExecutor, tmp_path: Path) -> None:
    memory = await run(executor, job(tmp_path, "import time; x = bytearray(1500 * 2**20); time.sleep(20)"))
    assert memory.failure is not None and memory.failure.kind == "memory"
    disk = await run(executor, job(tmp_path, "open('big', 'wb').write(bytes(80 * 2**20))"))
    assert disk.failure is not None and (tmp_path / "checkout" / "big").stat().st_size <= 50 * 10**6
    (tmp_path / "checkout" / "big").unlink()
    bomb = await run(
        executor,
        job(
            tmp_path,
            (
                "import subprocess, time\nheld = []\nfor _ in range(300):\n    "
                "held.append(subprocess.Popen(['sleep', '62']))\n"
                "time.sleep(20)"
            ),
        ),
    )
    assert bomb.failure is not None and not _running("sleep 62")
    flood = await run(executor, job(tmp_path, "for _ in range(3000): print('x' * 999)\nprint('last')"))
    assert flood.failure is None and flood.stdout.endswith("last\n") and len(flood.stdout) < 300_000


async def test_data_are_mounted_beside_the_checkout_read_only(executor: LocalExecutor, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("values")
    ground = CommandEnvironment(sys.executable, mounts={"there": tmp_path / "data", "/far/away": tmp_path / "data"})
    (tmp_path / "checkout" / "src").mkdir(parents=True)
    (tmp_path / "checkout" / "src" / "own.py").write_text("VALUE = 3\n")
    code = (
        "import own\nprint(open('../there/a.txt').read(), open('/far/away/a.txt').read(), own.VALUE)\n"
        "open('../there/b.txt', 'w')"
    )
    outcome = await run(executor, job(tmp_path, code, ground=ground, env={"PYTHONPATH": "src"}))
    assert outcome.stdout == "values values 3\n" and outcome.failure is not None
    assert "Read-only file system" in outcome.failure.message and not (tmp_path / "data" / "b.txt").exists()


async def test_a_name_with_a_slash_is_mounted_in_the_checkout_and_no_link_is_followed(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("values")
    (tmp_path / "outside").mkdir()
    ground = CommandEnvironment(
        sys.executable, mounts={"data/raw": tmp_path / "data", "./one.txt": tmp_path / "data" / "a.txt"}
    )
    check_command_environment(ground, executor.config)
    outcome = await run(
        executor, job(tmp_path, "print(open('data/raw/a.txt').read(), open('one.txt').read())", ground=ground)
    )
    assert outcome.stdout == "values values\n", outcome.output
    (tmp_path / "checkout" / "linked").symlink_to(tmp_path / "outside")
    with pytest.raises(RepositoryError, match="linked is a symbolic link"):
        await run(
            executor,
            job(tmp_path, "pass", ground=CommandEnvironment(sys.executable, mounts={"linked/raw": tmp_path / "data"})),
        )
    assert not any((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    ("name", "path", "words"), [("there", "nothing", "does not exist"), ("/usr/lib", ".", "would hide")]
)
def test_mounts_that_cannot_be_are_refused(
    executor: LocalExecutor, tmp_path: Path, name: str, path: str, words: str
) -> None:
    with pytest.raises(RepositoryError, match=words):
        check_command_environment(CommandEnvironment(sys.executable, mounts={name: tmp_path / path}), executor.config)


def test_what_outlived_its_program_is_found(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with subprocess.Popen(
        ["sleep", "63"],
        start_new_session=True,
        env={**os.environ, "SCIENTIST_CACHE": str(cache), "PYTHONHASHSEED": "0"},
    ) as left:
        try:
            found, until = list[int](), time.monotonic() + 60
            while not found and time.monotonic() < until:  # before exec it has this program's environment
                found = kill_orphans(cache)
            assert found == [left.pid] and not _running("sleep 63")
        finally:
            left.kill()


def _running(words: str) -> bool:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if process.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip() == words:
                return True
        except OSError:
            continue
    return False


@pytest.mark.skipif(not get_probed_isolation().between_cells, reason="no walls here")
async def test_it_cannot_change_the_devices_of_the_machine(executor: LocalExecutor, tmp_path: Path) -> None:
    code = """
import errno, os
for one in ("/dev/full", 0):
    try:
        os.utime(one, (1, 1)); print("changed")
    except OSError as error:
        print(errno.errorcode[error.errno])
open("/dev/null", "w").write("x")
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")])
"""
    outcome = await run(executor, job(tmp_path, code))
    assert outcome.stdout.splitlines() == ["EROFS", "EROFS", str(["0" * 16] * 5)], outcome
