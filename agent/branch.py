"""Create a new run that continues from any point of another run. Its folder is created completely or not at all.

The parent is only read, never changed, whatever its state. The folder is created under a hidden name and renamed once
its log is complete, so that an interruption leaves only the hidden folder. The branch is then an ordinary run, which
`agent.run.resume_run` resumes.

Limits: a branch may make the same choices as its parent; it has its own seed, but some choices are not random.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labwright.agent.repository_setup import open_mirror
from labwright.agent.run import settings_to_yaml
from labwright.agent.settings import Settings
from labwright.record.branching import LogPrefix, copy_run, cut_log, hash_events
from labwright.record.event_log import RecordError, parse_events, read_rows
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived, RunBranched
from labwright.record.events.search_events import SealedTestScored
from labwright.record.line_store import LogRow, write_rows
from labwright.record.retention import find_deletions
from labwright.record.run_folder import RunFolder, write_file
from labwright.sandbox.datasets import read_materialised
from labwright.sandbox.isolation.interpreter import format_environment
from labwright.stages.nodes.repository_program import UserProgram, build_first_choice
from labwright.stages.paper import template


@dataclass(frozen=True)
class BranchOrigin:
    """The parent of a branch: its rows up to the branch point, the state there, and the user's later marks on copied
    nodes, which apply to the branch too."""

    folder: RunFolder
    point: str
    rows: tuple[LogRow, ...]
    cut: LogPrefix
    marks: tuple[CommandReceived, ...] = ()
    tests_scored: bool = False
    """Whether the parent's test data were ever scored."""


@dataclass(frozen=True)
class BranchChanges:
    """Changes of a branch."""

    settings: Settings
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    note: str = ""
    user_code: UserProgram | None = None
    author: str = ""


def read_origin(parent: Path, point: str) -> BranchOrigin:
    """Read a run up to a point. Raises `BranchPointError`, `RecordError`."""
    folder = RunFolder(parent)
    rows = read_rows(folder.events)
    events = list(parse_events(rows, folder.events))
    cut = cut_log(events, point)
    later = (event for event, _ in events[cut.events :] if isinstance(event, CommandReceived))
    marks = (
        event.model_copy(update={"file": ""})
        for event in later
        if (event.verb, event.mark) == ("mark", "suspect") and event.target in cut.state.nodes
    )
    scored = (event for event, _ in events if isinstance(event, SealedTestScored | RunBranched))
    tested = any(getattr(event, "tested", True) for event in scored)
    return BranchOrigin(folder, point, tuple(rows[: cut.events]), cut, tuple(marks), tested)


def create_branch(origin: BranchOrigin, changes: BranchChanges, root: Path) -> None:
    """Create the folder of a branch; nothing is left behind on errors.

    Raises: `RecordError`, `UserCodeError`, `FileExistsError`, `OSError`.
    """
    draft = root.with_name(f".{root.name}.{os.getpid()}.part")
    draft.mkdir(parents=True)
    try:
        folder = RunFolder(draft)
        folder.create_folders()
        copy_run(origin.folder, folder, origin.cut.state)
        for facts in origin.cut.state.search.datasets:
            if facts.source.startswith("git:") and open_mirror(folder).has_tree(facts.origin):
                continue
            found = read_materialised(facts.name, folder.views, folder.labels)
            if found is None or found.fingerprint != facts.fingerprint:
                raise RecordError(
                    f"the copy of {facts.name!r} in {origin.folder.root} is missing or differs from the "
                    "recorded one: the branch would use other data"
                )
        write_file(draft / "config.yaml", settings_to_yaml(changes.settings))
        installed = origin.cut.state.search.installed_packages
        packages, digest = (installed.packages, installed.sha256) if installed is not None else (None, "")
        write_file(folder.environment, format_environment(changes.settings.sandbox.python, packages, digest))
        now = max(time.time(), origin.rows[-1][0])
        added = _build_first_events(origin, changes, folder, name=root.name)
        write_rows(folder.events, "run", [*origin.rows, *((now, event.model_dump_json()) for event in added)])
        if root.exists():
            raise FileExistsError(f"{root} already exists")
        os.rename(draft, root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _build_first_events(
    origin: BranchOrigin, addition: BranchChanges, folder: RunFolder, *, name: str
) -> Iterator[Event]:
    """Build the events of a branch that follow the copied part of the log."""
    copied = ""
    if "paper.template" in addition.overrides:
        copied = template.copy_template(template.load_template(addition.settings.paper.template), folder.templates)
    parent, sha256 = origin.folder.root.resolve(), hash_events(origin.rows)
    own_seed = 1 + int(hashlib.sha256(f"{sha256}/{name}".encode()).hexdigest()[:7], 16)
    yield RunBranched(
        parent=parent.name,
        path=str(parent),
        point=origin.point,
        events=len(origin.rows),
        sha256=sha256,
        seed=own_seed if addition.seed is None else addition.seed,
        settings=json.loads(json.dumps(addition.overrides, default=str)),
        template=copied,
        version=version("labwright"),
        note=addition.note,
        by=addition.author,
        tested=origin.tests_scored,
        later_ancestors=tuple(one.parent for one in origin.cut.later_branchings),
    )
    # read again, since the parent may be running and may have deleted files before they were copied
    log = origin.folder.events
    yield from find_deletions((event for event, _ in parse_events(read_rows(log), log)), origin.cut.state)
    yield from origin.marks
    if addition.note:
        stage = origin.cut.state.search.stage or ""
        yield CommandReceived(verb="note", target=stage, text=addition.note, by=addition.author)
    if addition.user_code is not None:
        yield from build_first_choice(origin.cut.state, origin.point, addition.user_code, folder)
