"""The loop of the benchmarks: items, under one budget, resumed by the same command.

What is done is kept in files and not repeated; results are built from these files each time. Items that run studies or
code have a process each (`ItemJobs`). Items that only ask models are done in one process, and their files are a log of
the answers (`open_answers`). An interruption and an outage of the provider end both in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from labwright.agent.campaign import CampaignJobs, CampaignRunner, prepare_folder, read_last_line, share_options
from labwright.agent.cli.errors import (
    DONE,
    FAILED,
    INTERRUPTED,
    Lines,
    print_result,
    print_to_stderr,
    report_error,
    saving_traceback,
)
from labwright.agent.settings import Settings
from labwright.models.errors import ProviderDown
from labwright.record.campaign import (
    CampaignEntry,
    CampaignEvent,
    CampaignStarted,
    CampaignTerms,
    EntryQueued,
    RunAllowance,
    RunEnded,
    SpendingCaps,
)
from labwright.record.errors import UsageError, UserError
from labwright.record.event_log import EventLog
from labwright.record.line_store import EVENTS_FILE
from labwright.record.lock import acquire_lock
from labwright.record.run_folder import write_file

JSON_FILE, CSV_FILE, OPTIONS_FILE = "results.json", "results.csv", "bench.json"
Name = TypeVar("Name", bound=str)
Item = TypeVar("Item")
Result = TypeVar("Result", bound=BaseModel)


class ItemInterrupted(Exception):
    """The user or an outage stopped the work on an item; the same command continues it."""


STOPS = (KeyboardInterrupt, ItemInterrupted, ProviderDown)
"""Errors that end a benchmark until it is called again."""


def print_interrupted() -> int:
    """Say how to continue; return the exit code."""
    print_to_stderr("interrupted; continue with the same command")
    return INTERRUPTED


def parse_names(option: str, text: str, known: Sequence[Name]) -> tuple[Name, ...]:
    """Parse `idea,paper` into known names, in their order. Raises `UsageError`."""
    named = {name.strip() for name in text.split(",") if name.strip()}
    if not named or not named <= {*known}:
        raise UsageError(f"{option} {text!r}: name one or more of {', '.join(known)}, separated by commas")
    return tuple(name for name in known if name in named)


def select_items(
    items: Sequence[Item], only: Sequence[str], where: str, matches: Callable[[Item, str], bool]
) -> tuple[Item, ...]:
    """Return the items that a pattern of `--only` matches, or all without patterns. Raises `UsageError`."""
    for pattern in only:
        if not any(matches(one, pattern) for one in items):
            raise UsageError(f"--only {pattern} matches none of the {len(items)} {where}")
    return tuple(one for one in items if not only or any(matches(one, pattern) for pattern in only))


def check_options(file: Path, options: BaseModel, *, free: Sequence[str] = ()) -> None:
    """Refuse a folder that was created with other options, but for the `free` ones. Raises `UsageError`."""
    if not file.exists():
        return
    try:
        before = type(options).model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise UsageError(f"{file} cannot be read: choose another --out") from None
    names = [name for name in type(options).model_fields if name not in free]
    if other := [name for name in names if getattr(before, name) != getattr(options, name)]:
        was, now = (", ".join(f"{name} {getattr(one, name)!r}" for name in other) for one in (before, options))
        raise UsageError(f"{file.parent} was created with {was}, but now it is {now}: choose another --out")


def read_stored(path: Path, kind: type[Result]) -> Result | None:
    """Read a stored result; None if there is none, or it is damaged, so that the work is repeated."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def store_result(path: Path, result: BaseModel) -> None:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, result.model_dump_json(indent=1) + "\n")


@contextmanager
def open_answers(out: Path, options: BaseModel | None = None, *, file: str = EVENTS_FILE) -> Generator[EventLog]:
    """Lock a folder, write its options, and open the log of model answers: what was answered is not asked again.

    Raises `RunLockedError`.
    """
    out.mkdir(parents=True, exist_ok=True)
    with acquire_lock(out), closing(EventLog(out / file, kind="answers")) as log:
        if options is not None:
            store_result(out / OPTIONS_FILE, options)
        yield log


@dataclass(frozen=True)
class ItemJobs:
    """The items of a benchmark as campaign jobs: each is a process `python -m MODULE OUT NAME [WORDS]`."""

    out: Path
    module: str
    is_complete: Callable[[str], bool]
    """Returns whether everything of an item is done, by its name."""
    compute_spent: Callable[[str], SpendingCaps]
    find_reason: Callable[[str], str] = lambda name: ""
    """Returns why an item that ran to its end is not complete."""
    words: tuple[str, ...] = ()

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        return [sys.executable, "-m", self.module, str(self.out), entry.name, *self.words, *share_options(share)]

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded:
        name, spent = entry.name, self.compute_spent(entry.name)
        if self.is_complete(name):
            return RunEnded(name=name, code=0, spent=spent)
        if returned == 0:  # it ran to its end; what failed is tried again by the next call of the benchmark
            return RunEnded(name=name, code=4, why=self.find_reason(name), spent=spent)
        code = returned if returned in (1, 2, 130) else None
        return RunEnded(name=name, code=code, spent=spent, why=read_last_line(self.out, name))


def run_items(
    out: Path,
    jobs: CampaignJobs,
    names: Sequence[str],
    *,
    settings: Settings,
    terms: CampaignTerms,
    on_end: Callable[[str], None],
) -> bool:
    """Run the items of these names; return whether all of them ended by themselves."""

    def listen(event: CampaignEvent) -> None:
        if isinstance(event, RunEnded):
            on_end(event.name)

    prepare_folder(out, settings, terms)
    first = CampaignStarted(terms=terms, version=version("labwright"))
    state = CampaignRunner(out, jobs, listener=listen, only_names=names).run(
        (first, *(EntryQueued(name=name) for name in names))
    )
    return not {state.entries[name].status for name in names} & {"interrupted", "failed", "waiting"}


def run_item(work: Callable[[], None], folder: Path) -> int:
    """Do the work of one item in this process; return the exit code."""
    try:
        with saving_traceback(folder):
            work()
    except STOPS as stopped:
        print_to_stderr(f"interrupted: {stopped or 'stop requested'}")
        return INTERRUPTED
    except UserError as error:
        return report_error(error)
    return DONE


def report_results(
    out: Path,
    results: BaseModel,
    csv: str | None,
    lines: Lines,
    *,
    is_complete: bool,
    is_whole: bool = True,
    json: bool = False,
) -> int:
    """Write and print results; return the exit code. `is_whole`: all items ended by themselves."""
    files = {CSV_FILE: csv, JSON_FILE: results.model_dump_json(indent=1) + "\n"}
    written = {out / name: text for name, text in files.items() if text is not None}
    for path, text in written.items():
        write_file(path, text)
    print_result(results, lines, json=json)
    if not json:
        print(f"written to {' and '.join(map(str, written))}")
    if not is_whole:
        return print_interrupted()
    return DONE if is_complete else FAILED
