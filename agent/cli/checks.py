"""What is refused before anything is created, each with its reason and the way to fix it.

Functions here raise `WrongUse`, of their own or as the room that they ask raises it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from labwright.agent.budget import check_budget
from labwright.agent.cli.edge import say
from labwright.agent.data import check_unchanged, survey
from labwright.agent.settings import Settings, adapt
from labwright.literature.library import read_own
from labwright.models.failover import open_backend
from labwright.record.errors import WrongUse
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, free_gb
from labwright.record.nouns.idea import Idea
from labwright.review.evidence.tex import TexMissing
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.gpu_leases import open_leases
from labwright.sandbox.gpus import cuda_visible_devices
from labwright.sandbox.isolation.bubblewrap import check_readable
from labwright.sandbox.isolation.interpreter import check_interpreter
from labwright.sandbox.isolation.probe import isolation_of
from labwright.sandbox.packages.of_run import RunPackages
from labwright.sandbox.packages.store import provide
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.documents import check as check_documents
from labwright.stages.paper.sample import try_out
from labwright.stages.paper.template import load, names

LONGEST_NAME = 80


def check(settings: Settings, folder: Path) -> None:
    """Refuse what cannot work. Raises `WrongUse`, `ModelConfigError`."""
    if folder.exists():
        raise WrongUse(f"{folder} exists already: choose another --name, or continue it: scientist resume {folder}")
    check_writable(folder.parent)
    check_space(settings, folder)
    if settings.alerts.command and shutil.which(settings.alerts.command[0]) is None:
        raise WrongUse(f"there is no program {settings.alerts.command[0]!r} (alerts.command): give its path, or none")
    if settings.context is not None:
        check_documents(settings.context)
    check_parts(settings)
    for warning in survey(settings):
        say(warning)


def settings_here(state: RunState, flags: Mapping[str, Any], run: RunFolder) -> Settings:
    """The settings with which work on a run goes on here; what is not on this machine is named. Raises `WrongUse`."""
    settings, replaced = adapt(state, flags, run)
    for line in replaced:
        say(line)
    return settings


def check_parts(settings: Settings, *, template: bool = True) -> None:
    """Refuse a model, template or library that cannot be opened, in the words of the room that opens it."""
    if template:
        check_template(settings.paper.template)
    if settings.paper.bib is not None:
        read_own(settings.paper.bib)
    check_papers(settings.paper.papers)
    open_backend(settings.models)
    check_budget(settings)
    check_isolation(settings.sandbox)


def check_taken_up(settings: Settings, flags: Mapping[str, Any], folder: Path) -> None:
    """Refuse what cannot work in a folder with what a run began with and these flags."""
    check_space(settings, folder)
    if "paper.template" in flags:
        check_template(settings.paper.template)
    check_unchanged(settings)


def check_template(name: str) -> None:
    """Refuse a template that does not work: one of a user's own sets a paper of two lines, where TeX is installed.

    Raises `TemplateError`.
    """
    found = load(name)
    if name not in names():
        with suppress(TexMissing):
            asyncio.run(try_out(found))


def places_of(settings: Settings) -> int | None:
    """Experiments that fit at a time on the GPUs, or on the cluster; None where nothing limits them.

    Refuses what is not there. Raises `GpuError`, `ClusterError`.
    """
    if settings.sandbox.executor == "local":
        return open_leases(settings.sandbox, cuda_visible_devices()).capacity
    from labwright.sandbox.cluster.machines import machines_of, unlike  # what a run on one machine does without

    machines = machines_of(settings.sandbox)
    fit = sum(one.places for one in machines)
    say(f"{len(machines)} machines of the Ray cluster at {settings.sandbox.ray}, with room for {fit} experiment(s)")
    for warning in unlike(machines):
        say(warning)
    return fit


def check_places(settings: Settings) -> None:
    """Refuse a GPU or a cluster that is not there, and say where workers will wait for one.

    Raises `GpuError`, `ClusterError`.
    """
    fit, workers = places_of(settings), settings.search.num_workers
    if fit is not None and fit < workers:
        where, more = (
            ("the cluster", "add machines")
            if settings.sandbox.executor == "ray"
            else ("the GPUs", "give more --gpus, raise sandbox.slots_per_gpu")
        )
        say(f"{workers} workers, but {fit} experiment(s) fit on {where} at a time: {more}, or give fewer --workers")


def check_writable(runs: Path, option: str = "--runs") -> None:
    """Refuse a folder that nothing can be written to; it is probed with a file that vanishes at once."""
    place = existing(runs)
    if not place.is_dir():
        raise WrongUse(f"{option} {runs}: {place} is a file, not a folder; choose another {option}")
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise WrongUse(f"{option} {runs} cannot be written to ({error.strerror}): choose another {option}") from None


def check_space(settings: Settings, folder: Path) -> None:
    """Refuse a disk without the room that `min_free_gb` asks for."""
    place = existing(folder)
    free = free_gb(place)
    if free < settings.min_free_gb:
        raise WrongUse(
            f"only {free:.2f} GB are free at {place}, {settings.min_free_gb:g} are wanted: free some, "
            "choose another --runs, or lower min_free_gb"
        )


def existing(path: Path) -> Path:
    """The path itself, or its nearest ancestor that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def check_name(name: str) -> str:
    """A name that is fit for a folder. Raises `WrongUse`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or len(name) > LONGEST_NAME:
        raise WrongUse(
            f"--name {name!r} cannot name a folder: use up to {LONGEST_NAME} letters, digits, '.', '_' and '-'"
        )
    return name


def default_name(idea: Idea) -> str:
    """Time and the idea's name, as a folder."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", idea.name).strip("-.")[:60]
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{slug or 'idea'}"


@contextmanager
def runs_folder_removed_if_refused(runs: Path) -> Generator[None]:
    """Remove the runs folder again where it was made for a run that is then refused (an idea outside the catalogue)."""
    made = not runs.exists()
    try:
        yield
    except WrongUse:
        if made and runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        raise


def check_isolation(settings: SandboxSettings) -> None:
    """Warn where code will run without isolation that was wanted.

    Raises `IsolationError` where it is required, and where code could not read what it should; `WrongUse` where no
    experiment could run in the interpreter.
    """
    check_readable(settings.readable)
    try:
        check_interpreter(settings.python)
    except ExecutorError as error:
        raise WrongUse(str(error)) from None
    found = isolation_of(settings)
    if settings.isolation == "auto" and not found.on:
        say(
            f"experiments run without isolation, as you, with your files and network: {found.why}; to fix it: "
            f"{found.fix}"
        )


def ready_packages(settings: SandboxSettings) -> None:
    """Install what `sandbox.packages` names, and say what that is; refuse lists that cannot be met. Raises
    `PackageError`."""
    more = RunPackages(settings)
    _ = more.names  # refused here, where it is no list
    if (found := more.find()) is None:
        return
    kept = f", as found on {found.until[:10]}: no index answers" if found.kept else ""
    names = ", ".join(f"{name} {version}" for name, version in found.lock.packages.items())
    say(f"packages for experiments, which {settings.python} lacks: {names or 'none'}{kept}")
    installed = provide(found, settings).installed
    if installed.packages:
        say(
            f"{'shared with other runs' if installed.shared else 'installed'}: {installed.bytes / 1e6:.1f} MB in "
            f"{installed.seconds:.1f} s"
        )


def check_papers(folder: Path | None) -> None:
    """Refuse a folder of papers that holds none. Raises `WrongUse`."""
    if folder is None:
        return
    if not folder.is_dir():
        raise WrongUse(f"there is no folder {folder}: give --papers a folder of PDFs")
    if not any(one.suffix.lower() == ".pdf" for one in folder.iterdir()):
        raise WrongUse(f"--papers {folder} holds no PDF: give a folder of PDFs, or leave it out")
