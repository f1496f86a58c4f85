"""`scientist cluster slurm`: run a command from a login node on workers that SLURM starts.

A Ray head without processors starts here, and one job of an array starts a Ray worker on each node. The command runs
here with `--ray`, and the workers are cancelled when it ends. A job that SLURM preempts is put back into the queue; its
worker joins again, and cells that it lost are measured again.

Limits: this process must live as long as the command (tmux, or a login node that allows it), nodes must reach this
machine, and the program must be at the same path on them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from labwright.agent.cli.commands import ClusterSlurm
from labwright.agent.cli.errors import INTERRUPTED, print_to_stderr
from labwright.record.errors import UsageError
from labwright.record.table import format_quantity

START_SECONDS, POLL_SECONDS, COMMAND_SECONDS = 60.0, 5.0, 60.0
"""Time limit of the head's start, interval between looks at the queue, and time limit of a command of SLURM or Ray, in
seconds."""
RAY = Path(sys.executable).with_name("ray")
SUBCOMMANDS = ("run", "resume", "campaign")
"""Commands that accept --ray."""
WORKER = """#!/bin/bash
# A worker that does not start, or loses the head for a moment, tries again.
for _ in 1 2 3; do
    {ray} start --block --disable-usage-stats --address={address} \\
        --num-cpus="${{SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}}"
    sleep 10
done
"""


def run_on_slurm(args: ClusterSlurm) -> int:
    words = args.command
    if words[0] not in SUBCOMMANDS:
        raise UsageError(f"{words[0]!r} does not run on a cluster: give one of {', '.join(SUBCOMMANDS)} after `--`")
    if "--ray" in words:
        raise UsageError("leave out --ray: this command gives it")
    for name in ("sbatch", "squeue", "scancel"):
        if shutil.which(name) is None:
            raise UsageError(f"{name} is not on the PATH: run this on a login node of a SLURM cluster")
    if not RAY.exists():
        raise UsageError("Ray is not installed: in the checkout, pip install '.[ray]'")
    folder = args.log.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    environment = prepare_environment(folder)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # in order, so that head and workers end
    address = f"{args.address or find_address()}:{find_free_port()}"
    with (
        start_head(address, environment, folder / "head.log"),
        submit_workers(args, address, environment, folder) as job,
    ):
        wait_for_workers(address, environment, job, args.nodes, args.wait_hours * 3600)
        joined = format_quantity(args.nodes, "node")
        print_to_stderr(f"{joined} joined at {address}; logs of the workers are in {folder}")
        return run_command([*words, "--ray", address], environment)


def prepare_environment(folder: Path) -> dict[str, str]:
    """Return the environment of head, workers and command, which share a token that only this user can read."""
    token = folder / "ray_token"
    if not token.exists():
        with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **variables}


def find_address() -> str:
    """Return the address of this machine that its name stands for. Raises `UsageError` if that is loopback."""
    with suppress(OSError):
        found = socket.gethostbyname(socket.gethostname())
        if not found.startswith("127."):
            return found
    raise UsageError("the name of this machine stands for no address that nodes can reach: give it with --address")


def find_free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


@contextmanager
def start_head(address: str, environment: Mapping[str, str], log: Path) -> Generator[None]:
    """Start the head, which runs no cells, and stop it at the end. Raises `UsageError` if it does not start."""
    host, _, port = address.rpartition(":")
    words = [str(RAY), "start", "--head", "--block", "--num-cpus=0", "--include-dashboard=false"]
    words += ["--disable-usage-stats", f"--node-ip-address={host}", f"--port={port}"]
    with log.open("wb") as file:
        head = subprocess.Popen(words, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError):
                socket.create_connection((host, int(port)), timeout=1.0).close()
                break
            if head.poll() is not None or time.monotonic() > end:
                raise UsageError(f"the Ray head does not start at {address}: see {log}")
            time.sleep(0.2)
        yield
    finally:
        head.terminate()
        with suppress(subprocess.TimeoutExpired):
            head.wait(START_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)


@contextmanager
def submit_workers(args: ClusterSlurm, address: str, environment: Mapping[str, str], folder: Path) -> Generator[str]:
    """Submit an array with a worker on each node, and cancel it at the end. Raises `UsageError`."""
    script = folder / "worker.sh"
    script.write_text(WORKER.format(ray=RAY, address=address), encoding="utf-8")
    words = ["sbatch", "--parsable", "--requeue", f"--array=1-{args.nodes}", "--nodes=1", "--ntasks=1"]
    words += ["--job-name=scientist", f"--time={args.time}", f"--output={folder}/worker-%a.log", "--open-mode=append"]
    words += ["--exclusive"] if args.cpus is None else [f"--cpus-per-task={args.cpus}"]
    words += [f"--gpus-per-node={args.gpus}"] if args.gpus else []
    words += [f"--partition={args.partition}"] if args.partition else []
    job = read_output([*words, *args.sbatch, str(script)], environment).partition(";")[0]
    try:
        yield job
    finally:
        with suppress(UsageError):
            read_output(["scancel", job], environment)


def wait_for_workers(address: str, environment: Mapping[str, str], job: str, nodes: int, seconds: float) -> None:
    """Wait until all nodes have joined; say why they wait. Raises `UsageError` when the time is over or the job is."""
    end, said = time.monotonic() + seconds, ""
    while True:
        joined = 0
        with suppress(UsageError):  # the head may be too busy to answer
            status = read_output([str(RAY), "status", "--address", address], environment)
            joined = max(0, status.count(" node_") - 1)  # without the head
        if joined >= nodes:
            return
        words = ["squeue", "--noheader", "--array", f"--jobs={job}", "--format=%T %R"]
        queued = read_output(words, environment).splitlines()
        if not queued:
            raise UsageError(f"the jobs of the workers ended before they joined: see the logs of job {job}")
        news = f"{joined} of {format_quantity(nodes, 'node')} joined; the queue: {'; '.join(dict.fromkeys(queued))}"
        if news != said:
            print_to_stderr(said := news)
        if time.monotonic() > end:
            raise UsageError(
                f"not all nodes joined within {seconds / 3600:g} hours ({news}): ask for fewer, or wait longer"
            )
        time.sleep(POLL_SECONDS)


def run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command of this program and return its exit code. Ctrl-C and TERM reach it as they would alone."""
    process = subprocess.Popen([sys.executable, "-m", "labwright", *words], env=environment)

    def pass_on(number: int, _: object) -> None:
        process.send_signal(number)

    before = {one: signal.signal(one, pass_on) for one in (signal.SIGTERM, signal.SIGUSR1)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both
    try:
        code = process.wait()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    return code if code >= 0 else INTERRUPTED


def read_output(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a command of SLURM or Ray prints. Raises `UsageError` with its error in one line."""
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{words[0]} does not answer within {COMMAND_SECONDS:g} s: try again later") from None
    if done.returncode:
        raise UsageError(f"{words[0]}: {' '.join(done.stderr.split())[:300]}")
    return done.stdout.strip()
