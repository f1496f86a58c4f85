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

from labwright.agent.code import mirror_in
from labwright.agent.environment import environment_text
from labwright.agent.run import as_yaml
from labwright.agent.settings import Settings
from labwright.record.branching import Cut, copy_run, cut_at, digest_of, write_log
from labwright.record.events import Event
from labwright.record.events.running import Branched, Commanded
from labwright.record.events.searching import Unsealed
from labwright.record.folder import RunFolder, write_file
from labwright.record.keeping import collected_in
from labwright.record.network import Row, on_network
from labwright.record.reading import RecordError, events_in, read_rows
from labwright.sandbox.datasets import undamaged
from labwright.stages.nodes.human import Written, first_choice
from labwright.stages.paper import template


@dataclass(frozen=True)
class Origin:
    """The parent of a branch: its rows up to the point, the state there, and marks that people set later on nodes that
    are copied, which hold in the branch too."""

    folder: RunFolder
    point: str
    rows: tuple[Row, ...]
    cut: Cut
    marks: tuple[Commanded, ...] = ()
    tested: bool = False
    """Whether the parent's test data were scored, at whatever point."""


@dataclass(frozen=True)
class Addition:
    """What is new in a branch."""

    settings: Settings
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    note: str = ""
    written: Written | None = None
    by: str = ""


def origin_of(parent: Path, point: str) -> Origin:
    """A run up to a point. Raises `PointError`, `RecordError`."""
    folder = RunFolder(parent)
    rows = read_rows(folder.db)
    events = list(events_in(rows, folder.db))
    cut = cut_at(events, point)
    marks = (
        event.model_copy(update={"file": ""})
        for event, _ in events[cut.events :]
        if isinstance(event, Commanded)
        and event.verb == "mark"
        and event.mark == "suspect"
        and event.target in cut.state.nodes
    )
    tested = any(isinstance(event, Unsealed | Branched) and getattr(event, "tested", True) for event, _ in events)
    return Origin(folder, point, tuple(rows[: cut.events]), cut, tuple(marks), tested)


def make(origin: Origin, addition: Addition, root: Path) -> None:
    """Make the folder of a branch. Raises `RecordError`, `CodeError`, `FileExistsError`, `OSError`: nothing is left
    behind then."""
    draft = root.with_name(f".{root.name}.{os.getpid()}.part")
    draft.mkdir(parents=True)
    try:
        folder = RunFolder(draft)
        folder.create()
        copy_run(origin.folder, folder, origin.cut.state)
        for facts in origin.cut.state.datasets:
            if facts.source.startswith("git:") and mirror_in(folder).holds(facts.origin):
                continue
            found = undamaged(facts.name, folder.views, folder.labels)
            if found is None or found.fingerprint != facts.fingerprint:
                raise RecordError(
                    f"the copy of {facts.name!r} in {origin.folder.root} is gone, or not what the record "
                    "says was used: a branch would continue with other data"
                )
        write_file(draft / "config.yaml", as_yaml(addition.settings))
        write_file(
            draft / "environment.txt", environment_text(addition.settings.sandbox.python, origin.cut.state.installed)
        )
        now = time.time()
        added = [(now, event.model_dump_json()) for event in _first_events(origin, addition, folder, name=root.name)]
        network = addition.settings.network_folder
        write_log(draft, [*origin.rows, *added], network=on_network(root.parent) if network is None else network)
        if root.exists():
            raise FileExistsError(f"{root} exists")
        os.rename(draft, root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _first_events(origin: Origin, addition: Addition, folder: RunFolder, *, name: str) -> Iterator[Event]:
    """What the log of a branch holds beside its copied part."""
    copied = ""
    if "paper.template" in addition.overrides:
        copied = template.keep(template.load(addition.settings.paper.template), folder.templates)
    parent, sha256 = origin.folder.root.resolve(), digest_of(origin.rows)
    own_seed = 1 + int(hashlib.sha256(f"{sha256}/{name}".encode()).hexdigest()[:7], 16)
    yield Branched(
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
        by=addition.by,
        tested=origin.tested,
        beyond=tuple(one.parent for one in origin.cut.beyond),
    )
    log = origin.folder.db  # read again: the parent may go on, and what it deleted meanwhile was not copied
    yield from collected_in((event for event, _ in events_in(read_rows(log), log)), origin.cut.state)
    yield from origin.marks
    if addition.note:
        yield Commanded(verb="note", target=origin.cut.state.stage or "", text=addition.note, by=addition.by)
    if addition.written is not None:
        yield from first_choice(origin.cut.state, origin.point, addition.written, folder)
