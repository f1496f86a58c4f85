"""Where a log may be cut so that another run goes on from there, and the log of that run.

A cut is a prefix of the log, never a selection: what the fold says of it is what the writer had at that moment, so that
everything that was under way then is begun again under its number, as after a kill. The copied events keep their times;
`Branched` follows them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from record.events.event import Event
from record.events.nodes import Judged
from record.events.running import Branched
from record.events.searching import Decided, Settled
from record.fold.apply import fold
from record.fold.state import RunState
from record.folder import write_file
from record.mirror import MIRROR, Row, line_of
from record.nouns.decisions import Work
from record.nouns.stages import STAGES, StageName
from record.reading import write_database


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
        raise PointError("it has no data plan yet, so that nothing lies before any point: start another run instead")
    stage: StageName | None = next((name for name in STAGES if name == point), None)
    number = _before(events, state, stage) if stage is not None else _after(events, state, point)
    found = fold(events[:number])
    if found.stage is None:
        raise PointError(f"{point} was made after the search, when the draft of the paper was there: branch from a "
                         f"stage ({', '.join(STAGES)}) or a node of the search")
    return Cut(number, found, tuple(event for event, _ in events[number:] if isinstance(event, Branched)))


def _before(events: Sequence[tuple[Event, float]], state: RunState, stage: StageName) -> int:
    if stage == STAGES[0]:
        first = (at for at, (event, _) in enumerate(events)
                 if isinstance(event, Decided) and not isinstance(event.action, Work))
        return next(first, len(events))
    before = STAGES[STAGES.index(stage) - 1]
    if not state.stages[before].settled:
        raise PointError(f"the {stage} stage has not begun: {state.stage} is being searched")
    if state.stages[before].best is None:
        raise PointError(f"the {before} stage found nothing that works: branch from it, or from one of its nodes")
    return 1 + next(at for at, (event, _) in enumerate(events) if isinstance(event, Settled) and event.stage == before)


def _after(events: Sequence[tuple[Event, float]], state: RunState, point: str) -> int:
    node = state.nodes.get(point)
    if node is None:
        names = list(state.nodes)
        has = f"it has {names[0]} to {names[-1]}" if names else "it has no nodes yet"
        raise PointError(f"{point[:40]!r} is neither a stage ({', '.join(STAGES)}) nor a node of it: {has}")
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
    """Make the log of a run that nobody works on yet; as a mirror on a network filesystem.

    Raises `OSError`, `RecordError`.
    """
    if network:
        write_file(folder / MIRROR, b"".join(line_of(at, body) for at, body in rows))
    else:
        write_database(folder / "run.db", rows)
