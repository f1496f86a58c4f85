"""A Ray cluster of node processes on this machine, on loopback addresses of its own, as docs/hardware.md starts one:
with a token and without a dashboard. It is ended by its own process groups; other clusters are left alone."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

START_SECONDS = 120.0
"""Seconds that a cluster may take to start."""
MAX_TRIES = 3
TOKEN = secrets.token_hex(32)
"""Of all clusters of a process, which reads it once."""
_VARIABLES = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}


@dataclass
class Machine:
    """One node: a process group with Ray's own processes of it."""

    address: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """SIGKILL to all of it, at once."""
        tree = [self.process, *_find_descendants(self.process.pid)]
        for one in tree:
            with suppress(ProcessLookupError, psutil.Error):
                one.kill()
        self.process.wait(30)


@dataclass
class RayCluster:
    """`machines[0]` is the head. Its variables are in the environment while it is there."""

    folder: Path
    port: int
    cpus: int
    network: int
    machines: list[Machine] = field(default_factory=list[Machine])

    @property
    def address(self) -> str:
        return f"{self.machines[0].address}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """What Ray's commands and `scientist` need in the environment."""
        return _VARIABLES | {"RAY_AUTH_TOKEN_PATH": str(self.folder / "token")}

    @property
    def alive(self) -> list[Machine]:
        """Those that were not killed, the head first."""
        return [one for one in self.machines if one.process.poll() is None]

    def add(self) -> Machine:
        """Start one more."""
        address = f"127.{self.network}.0.{len(self.machines) + 2}"
        role = ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.folder}"]
        words = role if not self.machines else [f"--address={self.address}"]
        log = (self.folder / f"{address}.log").open("wb")
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("ray"),
                "start",
                "--block",
                *words,
                f"--node-ip-address={address}",
                f"--num-cpus={self.cpus}",
                "--num-gpus=0",
                "--object-store-memory=100000000",
                "--disable-usage-stats",
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=os.environ | self.variables,
        )
        log.close()
        self.machines.append(Machine(address, process))
        return self.machines[-1]

    def wait_for_nodes(self, count: int) -> None:
        """Until so many of the nodes that live have started, while the last one does."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.machines[-1].process.poll() is None:
            if sum(self._has_started(one) for one in self.alive) >= count:
                return
            time.sleep(0.1)
        raise TimeoutError(f"no cluster of {count} nodes within {START_SECONDS:g} s: see {self.folder}")

    def _has_started(self, machine: Machine) -> bool:
        """By what `ray start` said."""
        return b"Ray runtime started" in (self.folder / f"{machine.address}.log").read_bytes()

    def end(self) -> None:
        for machine in self.machines:
            machine.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_cluster(nodes: int, cpus: int = 2) -> RayCluster:
    """A new cluster. Ray gives a node thirty seconds to start: on a busy machine it is tried again."""
    for _ in range(MAX_TRIES):
        with suppress(TimeoutError):
            return _start_once(nodes, cpus)
    return _start_once(nodes, cpus)


def _start_once(nodes: int, cpus: int) -> RayCluster:
    """The paths of its sockets are short. Raises `TimeoutError`."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cluster = RayCluster(folder, port, cpus, network=1 + secrets.randbelow(250))
    os.environ |= cluster.variables
    try:
        for number in range(nodes):  # two that start at once on one machine may take each other's ports
            cluster.add()
            cluster.wait_for_nodes(number + 1)
    except BaseException:
        cluster.end()
        raise
    return cluster


def find_worker_processes(cluster: RayCluster) -> list[psutil.Process]:
    """Return the worker processes on the cluster's machines, found by their Ray names."""
    found: list[psutil.Process] = []
    for one in (process for machine in cluster.machines for process in _find_descendants(machine.process.pid)):
        with suppress(psutil.Error):
            if "ray::WorkerActor" in " ".join(one.cmdline()):
                found.append(one)
    return found


def _find_descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
