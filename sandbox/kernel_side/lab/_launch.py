"""Several processes for one experiment, with the variables that `torchrun` sets.

`torchrun` itself starts its workers in sessions of their own, where they outlive a kernel that is killed and keep its
GPU; these stay in the process group of the kernel.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab._job import LabError, experiment

_CALL = "from lab._launch import run_function; run_function()"
_TAIL = 60
"""Lines of output that an error carries."""


def launch(work: Callable[[], Any] | str, *, processes: int | None = None, arguments: Sequence[str] = ()) -> Any:
    """Run a function, or a script with arguments, in several processes; waits for all of them.

    Each finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for `torch.distributed.init_process_group`;
    `processes` is the number of GPUs of this experiment when left out. Of a function, what rank 0 returned comes back.
    Once a process fails, the others are killed. Raises `LabError` with what the failed process printed last.
    """
    current = experiment("launch")
    count = current.processes if processes is None else processes
    if count < 1:
        raise LabError(f"lab.launch needs at least one process, not {count}")
    with tempfile.TemporaryDirectory(prefix="launch-") as scratch:
        answer = Path(scratch) / "answer"
        command = [sys.executable, str(work), *arguments]
        if callable(work):
            packed = Path(scratch) / "work"
            cloudpickle = _cloudpickle()
            try:
                packed.write_bytes(cloudpickle.dumps(work))
            except Exception as error:
                raise LabError(f"lab.launch cannot send {getattr(work, '__name__', work)!r} to other processes: "
                               f"{error}; give a script: lab.launch('train.py')") from error
            command = [sys.executable, "-c", _CALL, str(packed), str(answer)]
        _Group(command, count, current.folder).wait()
        return _unpacked(answer) if callable(work) else None


class _Group:
    """The processes of one launch, whose output is printed as it comes."""

    def __init__(self, command: Sequence[str], count: int, folder: Path) -> None:
        loopback = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        shared = {**os.environ, **loopback, "MASTER_PORT": str(port), "WORLD_SIZE": str(count),
                  "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
        self._tails = [deque[str](maxlen=_TAIL) for _ in range(count)]
        self._processes = [
            subprocess.Popen(
                command, cwd=folder, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for rank in range(count)]
        self._readers = [threading.Thread(target=self._read, args=(rank,), daemon=True) for rank in range(count)]
        for reader in self._readers:
            reader.start()

    def wait(self) -> None:
        """Wait for the end of all. Raises `LabError` for the first that fails."""
        try:
            while any(process.poll() is None for process in self._processes):
                self._check()
                time.sleep(0.02)
            self._check()
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            for reader in self._readers:
                reader.join(timeout=2.0)

    def _check(self) -> None:
        for rank, process in enumerate(self._processes):
            code = process.poll()
            if code:
                self._readers[rank].join(timeout=2.0)
                ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                raise LabError(f"process {rank} of {len(self._processes)} {ended}:\n"
                               + "".join(self._tails[rank]).rstrip())

    def _read(self, rank: int) -> None:
        output = self._processes[rank].stdout
        for line in output or ():
            self._tails[rank].append(line)
            print(f"[{rank}] {line}", end="")



def _unpacked(path: Path) -> Any:
    """What another process pickled there; None without."""
    return _cloudpickle().loads(path.read_bytes()) if path.is_file() else None


def _cloudpickle() -> Any:
    try:
        import cloudpickle  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise LabError("lab.launch of a function needs the package cloudpickle, which this environment lacks: "
                       "give a script, lab.launch('train.py')") from None
    return cloudpickle


def run_function() -> None:
    """Call, in a process of its own, the function whose file the command line names; rank 0 keeps what it returned."""
    function, answer = map(Path, sys.argv[1:])
    value = _unpacked(function)()
    if os.environ["RANK"] == "0":
        answer.write_bytes(_cloudpickle().dumps(value))
