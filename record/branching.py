"""Where another run may branch off a log, the log of that run, and the files that it names, copied and checked.

A cut is a prefix of the log, never a selection: what the fold says of it is what the writer had at that moment, so that
everything that was under way then is begun again under its number, as after a kill. The copied events keep their times;
`Branched` follows them.

What only the record names is copied, never what else lies in the folder: no cache, no lock, no command, no attempt that
was not sealed. Data, code, figures and texts are copies; the arrays and predictions of sealed attempts, which nobody
writes to again, are linked where the filesystem allows, and then the two runs share them on disk.

Not guaranteed: that a person who writes into a linked file changes one run alone. An audit of either says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labwright.record.events import Event
from labwright.record.events.running import Branched
from labwright.record.events.searching import Decided, Judged, Settled
from labwright.record.exchanges import copy_exchanges
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState, nodes_of
from labwright.record.folder import RunFolder, read_source, sha256, sha256_of_files, write_file
from labwright.record.manifest import files_of
from labwright.record.network import LINES, Row, line_of
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.nodes import STAGES
from labwright.record.reading import RecordError, write_database


class PointError(Exception):
    """No run can begin there. The message says why, and where one can."""


@dataclass(frozen=True)
class Cut:
    """The first so many events of a log, and the state that they fold to."""

    events: int
    state: RunState
    beyond: tuple[Branched, ...] = ()
    """Branchings of the log itself that lie after the cut."""


def cut_at(events: Sequence[tuple[Event, float]], point: str) -> Cut:
    """The cut before a stage's first decision, or after a node's verdict. Raises `PointError`."""
    state = fold(events)
    if state.started is None or state.data_plan is None:
        raise PointError("it has no data plan yet, so there is no point to branch from: start another run instead")
    number = _before(events, state, point) if point in STAGES else _after(events, state, point)
    cut = fold(events[:number])
    if cut.stage is None:
        raise PointError(
            f"{point} was made after the search, when the draft of the paper was there: branch from a "
            f"stage ({', '.join(STAGES)}) or a node of the search"
        )
    return Cut(number, cut, tuple(event for event, _ in events[number:] if isinstance(event, Branched)))


def _before(events: Sequence[tuple[Event, float]], state: RunState, stage: str) -> int:
    if stage == STAGES[0]:
        return next(
            (
                at
                for at, (event, _) in enumerate(events)
                if isinstance(event, Decided) and not isinstance(event.action, Work)
            ),
            len(events),
        )
    before = STAGES[[*STAGES].index(stage) - 1]
    if not state.stages[before].settled:
        raise PointError(f"the {stage} stage has not begun: {state.stage} is being searched")
    if state.stages[before].best is None:
        raise PointError(f"the {before} stage found nothing that works: branch from it, or from one of its nodes")
    return 1 + next(at for at, (event, _) in enumerate(events) if isinstance(event, Settled) and event.stage == before)


def _after(events: Sequence[tuple[Event, float]], state: RunState, point: str) -> int:
    node = state.nodes.get(point)
    if node is None:
        raise PointError(
            f"{point[:40]!r} is neither a stage ({', '.join(STAGES)}) nor a node of it: it has {nodes_of(state)}"
        )
    if not node.finished:
        raise PointError(f"{node.id} is not finished ({node.status}): wait for its verdict, or branch from its parent")
    return 1 + next(at for at, (event, _) in enumerate(events) if isinstance(event, Judged) and event.node == node.id)


def digest_of(rows: Iterable[Row]) -> str:
    """The sha256 of some events with their times, whichever form of log they stand in."""
    digest = hashlib.sha256()
    for at, body in rows:
        line = json.dumps([at, json.loads(body)], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def false_ancestry(rows: Sequence[Row], state: RunState) -> tuple[Branched, ...]:
    """The branchings whose copied events are not those that they name."""
    return tuple(one.event for one in state.ancestry if digest_of(rows[: one.event.events]) != one.event.sha256)


def write_log(folder: Path, rows: Sequence[Row], *, network: bool) -> None:
    """Make the log of a run that nobody works on yet; as lines on a network filesystem.

    Raises `OSError`, `RecordError`.
    """
    if network:
        write_file(folder / LINES, b"".join(line_of(at, body) for at, body in rows))
    else:
        write_database(folder / "run.db", rows)


LINKED = frozenset({"arrays", "sealed", "artifacts", "checkpoints"})
"""Folders of a sealed attempt whose files are linked."""
WHOLE = (
    "idea.json",
    "data_plan.json",
    "packages.lock",
    "library.bib",
    "context",
    "literature/library.bib",
    "templates",
    "data",
)
"""What every run has a copy of, where the parent has it."""


def copy_run(parent: RunFolder, to: RunFolder, state: RunState) -> None:
    """Copy what the state names, and check it there. Raises `RecordError`, `OSError`."""
    for name in WHOLE:
        _copy(parent.root / name, to.root / name)
    _copy(parent.root / "code" / "mirror", to.root / "code" / "mirror")
    copy_exchanges(parent.root, to.root)
    for node in state.nodes.values():
        if node.source_sha256:
            _copy(parent.source(node.id), to.source(node.id))
        for attempt in node.attempts:
            _copy(parent.attempt(node.id, attempt.number), to.attempt(node.id, attempt.number), link=True)
        for plotting in node.plottings:
            _copy(parent.plots(node.id, plotting.n), to.plots(node.id, plotting.n))
    for run in state.cells:
        _copy(parent.cell(run), to.cell(run), link=True)
    for one in (*state.answers.values(), *state.superseded, *state.drifted.values()):
        name = f"{one.request_sha256}.json.gz"
        _copy(parent.prompts / name, to.prompts / name)
    for path, expected in files_of(state, to):
        if not path.is_file() or sha256(path) != expected:
            raise RecordError(
                f"{parent.root / path.relative_to(to.root)} is missing, or not what the record says: a "
                "branch would depend on it; 'scientist audit' lists all such files"
            )
    for node in state.nodes.values():
        source = to.source(node.id)
        if node.source_sha256 and (not source.is_dir() or sha256_of_files(read_source(source)) != node.source_sha256):
            raise RecordError(
                f"{parent.source(node.id)} is not the code that the record says was run: a branch would rest on it"
            )


def _copy(source: Path, target: Path, *, link: bool = False) -> None:
    """A file, or all plain files below a folder; what is not there is passed over, and so are links and pipes."""
    paths = [source]
    if source.is_dir() and not source.is_symlink():
        paths = [Path(folder, name) for folder, _, names in os.walk(source) for name in names]
    for path in paths:
        inner = path.relative_to(source)
        if path.is_symlink() or not path.is_file() or any(name.endswith(".part") for name in inner.parts):
            continue
        place = target / inner
        place.parent.mkdir(parents=True, exist_ok=True)
        if link and LINKED & set(inner.parts):
            with suppress(OSError):  # another filesystem, one without links, or a file of another user
                os.link(path, place, follow_symlinks=False)
                continue
        shutil.copy2(path, place, follow_symlinks=False)
