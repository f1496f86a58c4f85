"""A new run that continues from any point of another one: its folder, made whole or not at all.

The parent is only read, whatever state it is in. The folder is made under a hidden name beside its place and renamed
when its log is complete: a kill on the way leaves that hidden folder and nothing else. From then on the branch is a run
like any other, and `agent.run.resume` takes it up.

Not guaranteed: that a branch differs from its parent. Its choices have a seed of their own, but where nothing is chosen
at random they may come out alike.
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

from labwright.agent.environment import format_environment
from labwright.agent.repository_setup import open_mirror
from labwright.agent.run import settings_to_yaml
from labwright.agent.settings import Settings
from labwright.record.branching import LogPrefix, copy_run, cut_log, hash_events, write_log
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived, RunBranched
from labwright.record.events.search_events import SealedTestScored
from labwright.record.jsonl_log import LogRow, is_on_network
from labwright.record.log_reader import RecordError, parse_events, read_rows
from labwright.record.retention import find_deletions
from labwright.record.run_folder import RunFolder, write_file
from labwright.sandbox.datasets import read_materialised
from labwright.stages.nodes.user_code import UserProgram, build_first_choice
from labwright.stages.paper import template


@dataclass(frozen=True)
class BranchOrigin:
    """The parent of a branch: its rows up to the point, the state there, and marks that people set later on nodes that
    are copied, which hold in the branch too."""

    folder: RunFolder
    point: str
    rows: tuple[LogRow, ...]
    cut: LogPrefix
    marks: tuple[CommandReceived, ...] = ()
    tests_scored: bool = False
    """Whether the parent's test data were scored, at whatever point."""


@dataclass(frozen=True)
class BranchChanges:
    """What is new in a branch."""

    settings: Settings
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    note: str = ""
    user_code: UserProgram | None = None
    author: str = ""


def read_origin(parent: Path, point: str) -> BranchOrigin:
    """A run up to a point. Raises `PointError`, `RecordError`."""
    folder = RunFolder(parent)
    rows = read_rows(folder.db)
    events = list(parse_events(rows, folder.db))
    cut = cut_log(events, point)
    marks = (
        event.model_copy(update={"file": ""})
        for event, _ in events[cut.events :]
        if isinstance(event, CommandReceived)
        and event.verb == "mark"
        and event.mark == "suspect"
        and event.target in cut.state.nodes
    )
    tested = any(
        isinstance(event, SealedTestScored | RunBranched) and getattr(event, "tested", True) for event, _ in events
    )
    return BranchOrigin(folder, point, tuple(rows[: cut.events]), cut, tuple(marks), tested)


def create_branch(origin: BranchOrigin, changes: BranchChanges, root: Path) -> None:
    """Make the folder of a branch. Raises `RecordError`, `CodeError`, `FileExistsError`, `OSError`: nothing is left
    behind then."""
    draft = root.with_name(f".{root.name}.{os.getpid()}.part")
    draft.mkdir(parents=True)
    try:
        folder = RunFolder(draft)
        folder.create_folders()
        copy_run(origin.folder, folder, origin.cut.state)
        for facts in origin.cut.state.datasets:
            if facts.source.startswith("git:") and open_mirror(folder).has_tree(facts.origin):
                continue
            found = read_materialised(facts.name, folder.views, folder.labels)
            if found is None or found.fingerprint != facts.fingerprint:
                raise RecordError(
                    f"the copy of {facts.name!r} in {origin.folder.root} is gone, or not what the record "
                    "says was used: a branch would continue with other data"
                )
        write_file(draft / "config.yaml", settings_to_yaml(changes.settings))
        write_file(
            draft / "environment.txt",
            format_environment(changes.settings.sandbox.python, origin.cut.state.installed_packages),
        )
        now = time.time()
        added = [
            (now, event.model_dump_json()) for event in _build_first_events(origin, changes, folder, name=root.name)
        ]
        network = changes.settings.network_folder
        write_log(draft, [*origin.rows, *added], network=is_on_network(root.parent) if network is None else network)
        if root.exists():
            raise FileExistsError(f"{root} exists")
        os.rename(draft, root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _build_first_events(
    origin: BranchOrigin, addition: BranchChanges, folder: RunFolder, *, name: str
) -> Iterator[Event]:
    """What the log of a branch holds beside its copied part."""
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
    log = origin.folder.db  # read again: the parent may go on, and what it deleted meanwhile was not copied
    yield from find_deletions((event for event, _ in parse_events(read_rows(log), log)), origin.cut.state)
    yield from origin.marks
    if addition.note:
        yield CommandReceived(verb="note", target=origin.cut.state.stage or "", text=addition.note, by=addition.author)
    if addition.user_code is not None:
        yield from build_first_choice(origin.cut.state, origin.point, addition.user_code, folder)
