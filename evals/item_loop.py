"""The loop of the benchmarks: each item in a process of its own, under one budget, resumed by the same command.

What is done is kept in files and not repeated; results are built from these files each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from labwright.agent.campaign import CampaignJobs, CampaignRunner, prepare_folder
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
from labwright.record.campaign import CampaignEvent, CampaignStarted, CampaignTerms, EntryQueued, RunEnded
from labwright.record.errors import UsageError, UserError
from labwright.record.run_folder import write_file

JSON_FILE, CSV_FILE = "results.json", "results.csv"
Name = TypeVar("Name", bound=str)


class ItemInterrupted(Exception):
    """The user or an outage stopped the work on an item; the same command continues it."""


def parse_names(option: str, text: str, known: Sequence[Name]) -> tuple[Name, ...]:
    """Parse `idea,paper` into known names, in their order. Raises `UsageError`."""
    named = {name.strip() for name in text.split(",") if name.strip()}
    if not named or not named <= {*known}:
        raise UsageError(f"{option} {text!r}: name one or more of {', '.join(known)}, separated by commas")
    return tuple(name for name in known if name in named)


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
    except (KeyboardInterrupt, ItemInterrupted, ProviderDown) as stopped:
        print_to_stderr(f"interrupted: {stopped or 'stop requested'}")
        return INTERRUPTED
    except UserError as error:
        return report_error(error)
    return DONE


def report_results(out: Path, results: BaseModel, csv: str, lines: Lines, *, is_complete: bool, json: bool) -> int:
    """Write and print results; return the exit code."""
    write_file(out / JSON_FILE, results.model_dump_json(indent=1) + "\n")
    write_file(out / CSV_FILE, csv)
    print_result(results, lines, json=json)
    if not json:
        print(f"written to {out / CSV_FILE} and {out / JSON_FILE}")
    return DONE if is_complete else FAILED
