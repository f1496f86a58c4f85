"""Checks that run before anything is created; each refusal states the reason and the fix.

These functions raise `UsageError`, or the errors of the package that they call.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from labwright.agent.campaign import to_slug
from labwright.agent.cli.errors import print_to_stderr
from labwright.agent.data import check_unchanged, survey_own_data
from labwright.agent.environment import describe_reviewer
from labwright.agent.forecast import check_budget
from labwright.agent.run import check_unstarted
from labwright.agent.settings import Settings, adapt, check_author
from labwright.literature.bibtex import read_user_library
from labwright.models.retry import open_backend
from labwright.models.roles import ROLES
from labwright.models.settings import ModelSettings, locate_model
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, read_free_gb
from labwright.record.schema.idea import Idea
from labwright.review.evidence.tex_runner import TexMissing
from labwright.sandbox.gpus import open_gpu_leases, read_cuda_visible_devices
from labwright.sandbox.isolation.bubblewrap import check_readable, determine_isolation
from labwright.sandbox.isolation.interpreter import check_interpreter
from labwright.sandbox.job import ExecutorError
from labwright.sandbox.packages import RunPackages, provide_packages
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.paper.template import OWN_TEMPLATES, load_template
from labwright.stages.paper.typesetting import try_template
from labwright.stages.settings import PaperSettings
from labwright.stages.user_documents import check_folder

MAX_NAME_LENGTH = 80


def check_settings(settings: Settings, folder: Path) -> None:
    """Refuse settings that cannot work. Raises `UsageError`, `ModelConfigError`."""
    check_unstarted(folder)
    check_writable(folder.parent)
    check_disk_space(settings, folder)
    if settings.alerts.command and shutil.which(settings.alerts.command[0]) is None:
        raise UsageError(
            f"alerts.command: program {settings.alerts.command[0]!r} not found; give its path, or leave it empty"
        )
    if settings.context is not None:
        check_folder(settings.context)
    if settings.memory is not None:
        check_writable(settings.memory, "--memory")
    check_components(settings)
    for warning in survey_own_data(settings):
        print_to_stderr(warning)


def settings_here(state: RunState, flags: Mapping[str, Any], run: RunFolder) -> Settings:
    """Return the settings for this machine, and print what is unavailable on it. Raises `UsageError`."""
    settings, replaced = adapt(state, flags, run)
    for line in replaced:
        print_to_stderr(line)
    return settings


def check_components(settings: Settings, *, template: bool = True) -> None:
    """Refuse a model, template or bibliography that cannot be opened, and print which model judges the others."""
    if template:
        check_template(settings.paper)
    if settings.paper.bib is not None:
        read_user_library(settings.paper.bib)
    check_papers(settings.paper.papers)
    if line := describe_reviewer(settings.models):
        print_to_stderr(line)
    open_backend(settings.models)
    check_author(settings)
    check_budget(settings)
    check_isolation(settings.sandbox)


def check_local_servers(settings: ModelSettings) -> None:
    """Refuse to start if every model of a role is served on this machine and no such server accepts connections.

    Raises: `UsageError`.
    """
    stopped = {(one.name, one.base_url): _find_stopped_server(one) for one in settings.distinct_models}
    for asked in map(settings.list_candidates, ROLES.values()):
        addresses = [stopped[one.name, one.base_url] for one in asked]
        if addresses and all(addresses):
            raise UsageError(
                f"{asked[0].name}: nothing listens at {addresses[0]}: start the server, or correct models.base_url"
            )


def _find_stopped_server(model: ModelSettings) -> str:
    """Return the address of a model server on this machine that refuses connections; empty for any other model."""
    if model.name == "offline" or model.name.startswith(("replay:", "cli:")):
        return ""
    address = locate_model(model.name, model.base_url, os.environ)
    parts = urlsplit(address.base_url or "")
    if re.fullmatch(r"localhost|::1|127\.[0-9.]+", parts.hostname or ""):
        try:
            socket.create_connection((parts.hostname or "", parts.port or 80), timeout=5).close()
        except OSError as error:
            return address.public_url if isinstance(error, ConnectionRefusedError) else ""
    return ""


def check_resumed(settings: Settings, flags: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a run if its settings and these flags cannot work in its folder."""
    check_disk_space(settings, folder)
    if "paper.template" in flags:
        check_template(settings.paper)
    check_unchanged(settings)


def check_template(settings: PaperSettings) -> None:
    """Refuse a template that does not work. One that needs more than the small TeX set and the program's files is
    tested with a two-line paper if TeX is installed.

    Raises: `TemplateError`.
    """
    found = load_template(settings.template)
    if settings.template not in OWN_TEMPLATES:
        with suppress(TexMissing):
            asyncio.run(try_template(found, anonymous=settings.anonymous))


def count_slots(settings: Settings) -> int | None:
    """Count the experiments that can run at once on the GPUs or the cluster; None if nothing limits them.

    Raises: `GpuError`, `ClusterError` if they are not available.
    """
    if settings.sandbox.executor == "local":
        return open_gpu_leases(settings.sandbox, read_cuda_visible_devices()).capacity
    from labwright.sandbox.cluster.actor import list_machines

    machines = list_machines(settings.sandbox)
    fit = sum(one.slots for one in machines)
    print_to_stderr(f"{len(machines)} machines of the Ray cluster, with room for {fit} experiment(s)")
    if len({one.environment_fingerprint for one in machines}) > 1:
        print_to_stderr(
            "the machines differ in processor, GPU or driver: the last digits of a cell may depend on the machine, "
            "and measurements from other clusters are not reused"
        )
    return fit


def check_slots(settings: Settings) -> None:
    """Refuse a GPU or a cluster that is not available, and warn if workers will need to wait.

    Raises: `GpuError`, `ClusterError`.
    """
    fit, workers = count_slots(settings), settings.search.num_workers
    if fit is not None and fit < workers:
        where, more = "the GPUs", "give more --gpus, raise sandbox.slots_per_gpu"
        if settings.sandbox.executor == "ray":
            where, more = "the cluster", "add machines"
        print_to_stderr(
            f"{workers} workers, but {fit} experiment(s) fit on {where} at a time: {more}, or use fewer --workers"
        )


def check_writable(runs: Path, option: str = "--runs") -> None:
    """Refuse a folder that is not writable, tested with a temporary file."""
    place = nearest_existing(runs)
    if not place.is_dir():
        raise UsageError(f"{option} {runs}: {place} is a file, not a folder; choose another {option}")
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise UsageError(f"{option} {runs} is not writable ({error.strerror}): choose another {option}") from None


def check_disk_space(settings: Settings, folder: Path) -> None:
    """Refuse a disk with less free space than `min_free_gb`."""
    place = nearest_existing(folder)
    free = read_free_gb(place)
    if free < settings.min_free_gb:
        raise UsageError(
            f"only {free:.2f} GB are free at {place}, {settings.min_free_gb:g} GB are required: free some space, "
            "choose another --runs, or lower min_free_gb"
        )


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest existing ancestor."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def check_name(name: str) -> str:
    """Return the name if it is a valid folder name. Raises `UsageError`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > MAX_NAME_LENGTH:
        raise UsageError(
            f"--name {name!r} is not a valid folder name: use up to {MAX_NAME_LENGTH} letters, digits, '.', '_' and '-'"
        )
    return name


def make_run_name(idea: Idea) -> str:
    """Build a folder name from the time and the idea's name."""
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{to_slug(idea.name)}"


def choose_folder(runs: Path, suffix: str, is_unfinished: Callable[[Path], bool]) -> Path:
    """Return the newest folder in which a request is unfinished, or a new folder named by time and suffix."""
    for folder in sorted(runs.glob(f"*_{suffix}"), reverse=True):
        with suppress(RecordError):
            if is_unfinished(folder):
                return folder
    time = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"  # two requests may start within a second
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}_{suffix}").exists())


@contextmanager
def removing_new_folder_on_refusal(runs: Path) -> Generator[None]:
    """Remove the runs folder again if it was created for a run that is then refused (e.g. an idea outside the
    catalogue)."""
    made = not runs.exists()
    try:
        yield
    except UsageError:
        if made and runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        raise


def check_isolation(settings: SandboxSettings) -> None:
    """Warn if code will run without the isolation that the settings request.

    Raises: `IsolationError` if isolation is required but unavailable, or code could not read its files; `UsageError` if
    no experiment could run in the interpreter.
    """
    check_readable(settings.readable)
    try:
        check_interpreter(settings.python)
    except ExecutorError as error:
        raise UsageError(str(error)) from None
    found = determine_isolation(settings)
    if settings.isolation == "auto" and not found.is_on:
        print_to_stderr(
            f"experiments run without isolation, with access to your files and network: {found.reason}; to fix it: "
            f"{found.fix}"
        )


def install_packages(settings: SandboxSettings) -> None:
    """Install the packages of `sandbox.packages` and print them. Raises `PackageError` if they cannot be resolved."""
    more = RunPackages(settings)
    _ = more.names  # raises if this is not a list
    if (found := more.find_lock()) is None:
        return
    kept = ", from uv's cache: the package index is unreachable" if found.is_from_cache else ""
    names = ", ".join(f"{name} {version}" for name, version in found.packages.items()) or "none"
    print_to_stderr(f"packages installed for experiments, in addition to those of {settings.python}: {names}{kept}")
    installed = provide_packages(found, settings).installed
    if installed.packages:
        how = "shared with other runs" if installed.shared else "installed"
        print_to_stderr(f"{how}: {installed.bytes / 1e6:.1f} MB in {installed.seconds:.1f} s")


def check_papers(folder: Path | None) -> None:
    """Refuse a folder that contains no papers. Raises `UsageError`."""
    if folder is None:
        return
    if not folder.is_dir():
        raise UsageError(f"--papers {folder} is not a folder: give a folder of PDFs")
    if not any(one.suffix.lower() == ".pdf" for one in folder.iterdir()):
        raise UsageError(f"--papers {folder} contains no PDF: give a folder of PDFs, or omit it")
