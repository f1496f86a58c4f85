"""Start a Ray cluster of local node processes on separate loopback addresses, as in docs/hardware.md: with a token and
without a dashboard. Its process groups are killed at the end; other clusters are not touched."""

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

from labwright.sandbox.cluster.actor import import_ray, list_machines

START_SECONDS = 120.0
"""Time limit for starting a cluster in seconds."""
MAX_TRIES = 3
TOKEN = secrets.token_hex(32)
"""Token of all clusters of a process, since Ray reads it once."""
_VARIABLES = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}


@dataclass
class Machine:
    """One node: a process group with its Ray processes."""

    address: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Send SIGKILL to all its processes."""
        tree = [self.process, *_find_descendants(self.process.pid)]
        for one in tree:
            with suppress(ProcessLookupError, psutil.Error):
                one.kill()
        self.process.wait(30)


@dataclass
class RayCluster:
    """`machines[0]` is the head. The environment variables are set while the cluster exists."""

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
        """Environment variables for Ray's commands and `scientist`."""
        return _VARIABLES | {"RAY_AUTH_TOKEN_PATH": str(self.folder / "token")}

    @property
    def alive(self) -> list[Machine]:
        """The machines that were not killed, head first."""
        return [one for one in self.machines if one.process.poll() is None]

    def add(self) -> Machine:
        """Start another machine."""
        address = f"127.{self.network}.0.{len(self.machines) + 2}"
        role = [
            "--head",
            f"--port={self.port}",
            "--no-monitor",
            "--include-dashboard=false",
            f"--temp-dir={self.folder}",
        ]
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
                "--include-log-monitor=false",  # nobody reads what it forwards
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
        """Wait until `count` nodes are alive, as long as the last one is still starting, and Ray knows that those that
        were killed are dead: until then it gives them work."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.machines[-1].process.poll() is None:
            if sum(self._has_started(one) for one in self.alive) >= count and not self._list_undead():
                return
            time.sleep(0.1)
        raise TimeoutError(f"no cluster of {count} nodes within {START_SECONDS:g} s: see {self.folder}")

    def _list_undead(self) -> set[str]:
        """Return the addresses of killed machines that Ray believes to be alive."""
        killed = {one.address for one in self.machines} - {one.address for one in self.alive}
        if not killed:  # no process needs to join the cluster to know
            return killed
        return killed & {one["NodeManagerAddress"] for one in import_ray().nodes() if one["Alive"]}

    def _has_started(self, machine: Machine) -> bool:
        """Build the error message from the output of `ray start`."""
        return b"Ray runtime started" in (self.folder / f"{machine.address}.log").read_bytes()

    def end(self) -> None:
        """Leave the cluster, if this process joined it, and kill it."""
        import_ray().shutdown()
        list_machines.cache_clear()
        for machine in self.machines:
            machine.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_cluster(nodes: int, cpus: int = 2) -> RayCluster:
    """Start a cluster, with retries, because Ray allows a node only 30 seconds to start."""
    for _ in range(MAX_TRIES):
        with suppress(TimeoutError):
            return _start_once(nodes, cpus)
    return _start_once(nodes, cpus)


def _start_once(nodes: int, cpus: int) -> RayCluster:
    """Start a cluster in a folder with a short path, for its sockets. Raises `TimeoutError`."""
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
        for number in range(nodes):  # one at a time: concurrent starts may take each other's ports
            cluster.add()
            cluster.wait_for_nodes(number + 1)
    except BaseException:
        cluster.end()
        raise
    return cluster


def find_actor_processes(cluster: RayCluster) -> list[psutil.Process]:
    """Return the actor processes on the cluster's machines, found by their Ray names."""
    found: list[psutil.Process] = []
    for one in (process for machine in cluster.machines for process in _find_descendants(machine.process.pid)):
        with suppress(psutil.Error):
            if "ray::MachineActor" in " ".join(one.cmdline()):
                found.append(one)
    return found


def _find_descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
