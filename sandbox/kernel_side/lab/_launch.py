"""Start several processes for one experiment, with the variables that `torchrun` sets.

`torchrun` starts its workers in separate sessions, where they outlive a killed kernel and keep its GPU; these processes
stay in the kernel's process group.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lab._job import LabError, require_experiment

_CALL_CODE = """
import os, sys, cloudpickle
with open(sys.argv[1], "rb") as file:
    answer = cloudpickle.load(file)()
if os.environ["RANK"] == "0":
    with open(sys.argv[2], "wb") as file:
        cloudpickle.dump(answer, file)
"""
"""Calls the pickled function in a separate process; rank 0 saves the result."""
_MAX_TAIL_LINES = 60
"""Number of output lines in an error."""


def launch(work: Callable[[], Any] | str, *, processes: int | None = None, arguments: Sequence[str] = ()) -> Any:
    """Run a function, or a script with arguments, in several processes, and wait for all of them.

    Each gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for `torch.distributed.init_process_group`;
    `processes` defaults to the number of GPUs of this experiment. For a function, the result of rank 0 is returned. If
    a process fails, the others are killed. Raises `LabError` with the last output of the failed process.
    """
    current = require_experiment("launch")
    count = current.processes if processes is None else processes
    if count < 1:
        raise LabError(f"lab.launch needs at least one process, not {count}")
    with tempfile.TemporaryDirectory(prefix="launch-") as scratch:
        answer = Path(scratch) / "answer"
        command = [sys.executable, str(work), *arguments]
        if callable(work):
            cloudpickle: Any = import_module("cloudpickle")  # some environments do not have it
            packed = Path(scratch) / "work"
            try:
                packed.write_bytes(cloudpickle.dumps(work))
            except Exception as error:
                name = getattr(work, "__name__", work)
                raise LabError(f"lab.launch cannot send {name!r} to other processes: {error}; give a script") from error
            command = [sys.executable, "-c", _CALL_CODE, str(packed), str(answer)]
        _run_processes(command, count, current.folder)
        return pickle.loads(answer.read_bytes()) if answer.is_file() else None


def _run_processes(command: Sequence[str], count: int, folder: Path) -> None:
    """Wait for all processes and print their output as it arrives. Raises `LabError` if one fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": "0",
    }
    tails = [deque[str](maxlen=_MAX_TAIL_LINES) for _ in range(count)]
    processes = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(count)
    ]

    def read(rank: int) -> None:
        for line in processes[rank].stdout or ():
            tails[rank].append(line)
            print(f"[{rank}] {line}", end="")

    readers = [threading.Thread(target=read, args=(rank,), daemon=True) for rank in range(count)]
    for reader in readers:
        reader.start()
    codes: list[int | None] = [None]
    try:
        while None in codes and not any(codes):
            time.sleep(0.02)
            codes = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for reader in readers:
            reader.join(timeout=2.0)
    for rank, code in enumerate(codes):
        if code:
            ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise LabError(f"process {rank} of {count} {ended}:\n{''.join(tails[rank]).rstrip()}")
