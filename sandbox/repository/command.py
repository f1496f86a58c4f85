"""Run a command once in a checkout of a repository, in the same sandbox as experiments; there is no kernel, and any
program may run.

Guarantees: the command sees only its checkout (writable), the interpreter's packages and the mounts; no network, no API
keys. Watchdog, GPU leases, time limit and cleanup are the same as for experiments, so no process is left running.
Environment variables tell trackers and hubs to stay offline. Limits: bundled datasets are not hidden, since a
repository chooses its own evaluation data (its numbers are graded `logged`).
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import subprocess
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO

from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Failure
from labwright.record.schema.repository import split_folder
from labwright.record.untrusted_files import BadFile, make_folder, open_regular, read_status, write_file
from labwright.sandbox.gpus import GpuLease
from labwright.sandbox.isolation.bubblewrap import (
    SYSTEM_FOLDERS,
    KernelConfig,
    SandboxSpec,
    build_base_environment,
    build_code_sandbox,
    build_command,
    is_visible,
)
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.isolation.processes import CACHE_VARIABLE, ResourceLimits
from labwright.sandbox.job import RepositoryError, SubmissionRefused
from labwright.sandbox.kernels import CodeProcess
from labwright.sandbox.limited_process import call_limited
from labwright.sandbox.monitor import MemoryMeter, PeakUsage
from labwright.sandbox.output import (
    MAX_KEPT_CHARS,
    MAX_PRINTED_CHARS,
    Transcript,
    failure_from_death,
    failure_from_exception,
    failure_from_flood,
    strip_colours,
)
from labwright.sandbox.repository.metric import PRINTED_KINDS, parse_metric
from labwright.sandbox.repository.trace import HOOK_FOLDER

CHECKOUT_INSIDE = Path("/experiment")
"""Path of the checkout inside the sandbox; a mount named data is next to it, at `../data`."""
_OFFLINE_VARIABLES = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_TRACKING_URI": "file:./mlruns",
    "COMET_OFFLINE_DIRECTORY": "./comet",
    "NO_ALBUMENTATIONS_UPDATE": "1",
}
_POLL_SECONDS = 0.05
_READ_BYTES = 2**16


@dataclass(frozen=True)
class CommandEnvironment:
    """The environment of a repository's commands: interpreter, a folder of additional packages, and external data."""

    python: str
    packages: Path | None = None
    mounts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Maps a name next to the checkout, a path in it (with a slash) or an absolute path to an external folder or
    file.
    """


@dataclass(frozen=True)
class CommandJob:
    """One run. `folder` is its own checkout; `python` or `torchrun` as the first word means that of the
    environment.
    """

    name: str
    folder: Path
    argv: tuple[str, ...]
    environment: CommandEnvironment
    timeout: float
    """Wall-clock limit in seconds; then SIGINT, and after `sandbox.grace` seconds SIGKILL to all its processes."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: ResourceNeeds = field(default_factory=ResourceNeeds)
    alone: bool = False
    """Whether it may use the whole machine."""


@dataclass(frozen=True)
class CommandOutcome:
    """Result of a command. `stdout` and `output` contain the first and last part of long output."""

    seconds: float
    failure: Failure | None
    stdout: str
    output: str
    """Both streams interleaved."""
    peak_host_bytes: int | None = None


def check_command_environment(environment: CommandEnvironment, config: KernelConfig) -> None:
    """Raise `RepositoryError` for invalid mounts."""
    needed = tuple(map(Path, (*SYSTEM_FOLDERS, "/etc", "/proc", "/dev", "/tmp")))
    for name, path in environment.mounts.items():
        inside = _resolve_mount_target(name)
        why = ""
        if not config.isolation.is_on:
            why = "needs a sandbox, which is not available (sandbox.isolation)"
        elif not path.exists():
            why = f"names {path}, which does not exist"
        elif inside in (Path("/"), CHECKOUT_INSIDE) or is_visible(inside, needed):
            why = "would hide files that every command needs: choose another name"
        if why:
            raise RepositoryError(f"--mount {name}={path} {why}")


async def run_command(
    job: CommandJob,
    *,
    config: KernelConfig,
    limits: ResourceLimits,
    meter: MemoryMeter,
    lease: GpuLease,
    usage: PeakUsage,
) -> CommandOutcome:
    """Run a command to its end or limit. Raises `ExecutorError`."""
    command, began = CommandProcess(job, config, lease), time.monotonic()
    try:
        await command.start(job.argv)
        async with meter.measure_peaks(command.pid, lease, usage):
            failure = await command.wait_until_done(limits, job.timeout)
    finally:
        await asyncio.to_thread(command.kill)
    return CommandOutcome(
        time.monotonic() - began,
        failure,
        command.stdout.to_text(),
        command.transcript.to_text(),
        usage.peak_host_bytes or None,
    )


class CommandProcess(CodeProcess):
    """One process tree: its start, output, limits and end."""

    def __init__(self, job: CommandJob, config: KernelConfig, lease: GpuLease) -> None:
        super().__init__(job.folder, config)
        self._job, self._lease = job, lease
        self.transcript, self.stdout = Transcript(MAX_KEPT_CHARS), Transcript(MAX_KEPT_CHARS)

    async def start(self, argv: Sequence[str]) -> None:
        """Start the process. Raises `ExecutorError` if that fails."""
        command = await asyncio.to_thread(self._build_command_line, argv)
        streams = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        await self.launch(self._job.name, command, self._build_variables(), **streams)

    def _build_command_line(self, argv: Sequence[str]) -> list[str]:
        """Build the command line: the sandbox, file limits and the command.

        Raises `RepositoryError` if a mount point cannot be created in the checkout.
        """
        for name, path in self._job.environment.mounts.items():
            if (inside := _resolve_mount_target(name)).is_relative_to(CHECKOUT_INSIDE):
                _make_mount_point(self._job.folder, inside.relative_to(CHECKOUT_INSIDE), path, name)
        limits = f'ulimit -f {int(self.config.settings.disk_gb * 1e9 / 512)}; ulimit -c 0; exec "$@" </dev/null'
        words = ["/bin/sh", "-c", limits, "sh", *_resolve_words(argv, self._job.environment)]
        return build_command(words, self._build_sandbox()) if self.config.isolation.is_on else words

    async def wait_until_done(self, limits: ResourceLimits, timeout: float) -> Failure | None:
        """Wait for the end; return the reason why the command failed, or None."""
        process, watchdog = self.process, self.start_watchdog(limits)
        assert process.process.stdout is not None and process.process.stderr is not None
        pipes = {"stdout": process.process.stdout, "stderr": process.process.stderr}
        reading = asyncio.gather(*(self._drain(name, pipe) for name, pipe in pipes.items()))
        late = False
        try:
            code = await self._wait_for_exit(timeout)
            if late := code is None:
                process.interrupt()
                code = await self._wait_for_exit(self.config.settings.grace)
            await asyncio.to_thread(process.kill_all)  # remaining processes keep the pipes open
            await asyncio.wait({reading}, timeout=2.0)
        finally:
            watchdog.stop()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if watchdog.failure is not None or self.transcript.char_count > MAX_PRINTED_CHARS:
            return watchdog.failure or failure_from_flood(MAX_PRINTED_CHARS)
        if late:
            message, tail = f"the wall-clock limit of {timeout:g} s was reached", self.transcript.read_tail(2000)
            return Failure(kind="timeout", message=message, traceback=tail)
        return None if code == 0 else _find_failure(code or 0, self.transcript)

    async def _wait_for_exit(self, within: float) -> int | None:
        """Return the exit code, or None if the process is still running after `within` seconds."""
        until = time.monotonic() + within
        while (code := self.process.get_exit_code()) is None:
            if time.monotonic() >= until:
                return None
            if self.transcript.char_count > MAX_PRINTED_CHARS:
                self.process.kill_all()
            await asyncio.sleep(_POLL_SECONDS)
        return code

    async def _drain(self, name: str, pipe: IO[bytes]) -> None:
        reader, decoder = asyncio.StreamReader(), codecs.getincrementaldecoder("utf-8")(errors="replace")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while piece := await reader.read(_READ_BYTES):
                text = strip_colours(decoder.decode(piece))
                self.transcript.add(name, text)
                if name == "stdout":
                    self.stdout.add(name, text)
        finally:
            transport.close()

    def _build_sandbox(self) -> SandboxSpec:
        job, config = self._job, self.config
        environment = job.environment
        trees = [*inspect_interpreter(environment.python).trees, *map(Path, config.settings.readable)]
        trees += filter(None, [environment.packages])
        return build_code_sandbox(
            config,
            trees,
            self._lease.devices,
            self._scratch,
            folder=job.folder.absolute(),
            folder_inside=CHECKOUT_INSIDE,
            readable=(HOOK_FOLDER,),
            mounts=tuple((path.absolute(), _resolve_mount_target(name)) for name, path in environment.mounts.items()),
            guard=environment.python if config.isolation.between_cells else "",
            with_host=True,
        )

    def _build_variables(self) -> dict[str, str]:
        job, on = self._job, self.config.isolation.is_on
        base = CHECKOUT_INSIDE if on else job.folder.absolute()
        tmp = "/tmp" if on else str(self._scratch.tmp)
        program = Path(job.environment.python)
        common = build_base_environment(self.config.settings, self._lease.devices)
        path = common.get("PATH", "/usr/bin:/bin")
        imports = [str(base / folder) for folder in job.env.get("PYTHONPATH", "").split(":") if folder]
        imports += map(str, filter(None, [job.environment.packages]))
        return {
            **common,
            **_OFFLINE_VARIABLES,
            CACHE_VARIABLE: str(self.config.cache),
            "HOME": tmp,
            "TMPDIR": tmp,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PATH": f"{program.parent}:{path}" if program.is_absolute() else path,
            **job.env,
            **({"PYTHONPATH": ":".join(imports)} if imports else {}),
        }


def _resolve_words(argv: Sequence[str], environment: CommandEnvironment) -> list[str]:
    """Replace `python` and `torchrun` by the programs of the environment."""
    folder, words = split_folder(argv)
    if folder:
        return ["/bin/sh", "-c", 'cd "$0" && exec "$@"', folder, *_resolve_words(words, environment)]
    if re.fullmatch(r"python(3(\.\d+)?)?", argv[0]):
        return [environment.python, *argv[1:]]
    return [environment.python, "-m", "torch.distributed.run", *argv[1:]] if argv[0] == "torchrun" else list(argv)


def _resolve_mount_target(name: str) -> Path:
    """Return the path of a mount in the sandbox: next to the checkout, in the checkout, or absolute."""
    return Path(os.path.normpath((CHECKOUT_INSIDE if "/" in name else CHECKOUT_INSIDE.parent) / name))


def _make_mount_point(checkout: Path, place: Path, path: Path, name: str) -> None:
    """Create a mount point; bubblewrap would follow links of the repository.

    Raises `RepositoryError`.
    """
    try:
        if path.is_dir():
            make_folder(checkout, str(place))
        elif read_status(checkout, str(place)) is None:
            write_file(checkout, str(place), b"")
        else:
            open_regular(checkout, str(place), 2**62).close()
    except (BadFile, OSError) as error:
        raise RepositoryError(f"--mount {name}={path} cannot be mounted in the repository ({error})") from None


_ERROR_PATTERN = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit))\b(?::\s*(.*))?$", re.MULTILINE)


def _find_failure(code: int, transcript: Transcript) -> Failure:
    """Return the failure for an exit code, with the last exception named in the output."""
    tail = transcript.read_tail(6000)
    errors = list(_ERROR_PATTERN.finditer(tail))
    if code > 0 and "Traceback (most recent call last)" in tail and errors:
        name, message = errors[-1].groups("")
        return failure_from_exception(name, message, traceback=[tail], folder=CHECKOUT_INSIDE)
    if code < 0:
        return failure_from_death(code, tail, folder=CHECKOUT_INSIDE)
    words = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "no output")
    return Failure(kind="other", message=f"it ended with exit code {code}: {words[:300]}", traceback=tail)


# Redact lines of a command's output that reveal test results while selection could still use them. The redacted lines
# are those that match the expression of a `stdout:` metric or a user's pattern; lines with the metric's key and a
# number; lines that print the value itself to at least three digits, also as a percentage, with a decimal comma, in
# colours or over a progress bar. Limits: what code disguises is not found (derived values such as the complement,
# other encodings, numbers printed in pieces).

WITHHELD_LINE = "[line withheld: it may reveal test results]"
_NUMBER_PATTERN = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class OutputRedactor:
    """Regular expressions and values of the lines to redact."""

    patterns: tuple[re.Pattern[str], ...] = ()
    values: tuple[float, ...] = field(default=())
    """Test results of this run, once known."""

    @classmethod
    def from_metric(cls, test_metric: str, patterns: Iterable[str]) -> OutputRedactor:
        """Build the redactor of a test metric and the user's patterns. Raises `MetricError`, `re.error`."""
        found = [re.compile(pattern) for pattern in patterns]
        if test_metric:
            metric = parse_metric(test_metric)
            if metric.kind in PRINTED_KINDS:
                found.append(re.compile(metric.name))
            else:
                key = re.escape(metric.name.rpartition(".")[2])
                found.append(re.compile(rf"(?i)(?<![a-z0-9]){key}(?![a-z0-9]).*\d|\d.*(?<![a-z0-9]){key}(?![a-z0-9])"))
        return cls(tuple(found))

    def with_values(self, *values: float | None) -> OutputRedactor:
        """Return a redactor that finds these values as well."""
        return OutputRedactor(self.patterns, (*self.values, *(value for value in values if value is not None)))

    def redact(self, text: str) -> str:
        """Replace the lines to redact, or all of them if that takes too long; lines end where Python ends them, also at
        `\\r`.
        """
        if not self.patterns and not self.values:
            return text
        try:  # an expression may need exponential time, in which no other thread runs
            return call_limited(OutputRedactor._redact, self, text, subject="the output")
        except SubmissionRefused:
            return WITHHELD_LINE

    def _redact(self, text: str) -> str:
        lines = text.splitlines()
        plain = [unicodedata.normalize("NFKC", strip_colours(line)).replace("\N{MINUS SIGN}", "-") for line in lines]
        covered = {number for number, line in enumerate(plain) if self._prints_value(line)}
        starts = list(accumulate((len(line) + 1 for line in plain), initial=0))
        for match in (match for pattern in self.patterns for match in pattern.finditer("\n".join(plain))):
            first, last = bisect_right(starts, match.start()), bisect_right(starts, max(match.start(), match.end() - 1))
            covered.update(range(first - 1, last))
        shown = "\n".join(WITHHELD_LINE if number in covered else line for number, line in enumerate(lines))
        return shown + "\n" * text.endswith("\n")

    def _prints_value(self, line: str) -> bool:
        forms = {line, line.replace(",", ".")}
        return any(self._is_withheld_value(number) for form in forms for number in _NUMBER_PATTERN.findall(form))

    def _is_withheld_value(self, printed: str) -> bool:
        number, _, exponent = printed.lower().partition("e")
        if len(re.sub(r"\D", "", number).lstrip("0")) < 3:
            return False
        rounding = 0.51 * 10.0 ** (int(exponent or 0) - len(number.partition(".")[2]))
        scales = [scale * abs(value) for value in self.values for scale in (1, 100)]
        return any(abs(abs(float(printed)) - value) <= rounding for value in scales)
