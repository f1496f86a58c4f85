"""Why a run is where it is, in one value: what `scientist why` prints and `--json` writes (see docs/command-line.md).

Made from the log alone. Which action comes next is decided by the search; `agent` asks its policy and hands the answer
in.
"""

from __future__ import annotations

from collections.abc import Sequence

from inspector.found import Compared, ErrorCount, comparisons_of, errors_of
from inspector.origin import Origin, origins_of
from inspector.status import RunCondition, answers_of, condition_of, paused_of
from inspector.waiting import Outlook, Place, Waiting, left_of, places_of, waiting_of, work_of
from record.events.event import Event
from record.fold.apply import fold
from record.nouns.frozen import Frozen
from record.nouns.stages import Phase


class Why(Frozen):
    """The whole answer (see docs/command-line.md)."""

    run: str
    condition: RunCondition
    process: str | None
    phase: Phase
    places: tuple[Place, ...]
    waiting: tuple[Waiting, ...]
    work: tuple[str, ...]
    paused: str = ""
    answers: tuple[str, ...] = ()
    ancestry: tuple[Origin, ...] = ()
    errors: tuple[ErrorCount, ...]
    best: str | None
    comparisons: tuple[Compared, ...]
    next: tuple[str, ...]


def why_of(
    run: str, events: Sequence[tuple[Event, float]], process: str | None, *, outlook: Outlook, now: float
) -> Why:
    """Why a run is where it is. `process` names who works on it now; `now` is seconds since the epoch."""
    state = fold(events)
    condition = condition_of(state, process)
    running = condition == "running"
    waiting = waiting_of(state, now=now) if running else left_of(state, now=now)
    return Why(
        run=run, condition=condition, process=process, phase=state.phase, waiting=waiting, work=work_of(state),
        ancestry=origins_of(state),
        paused=paused_of(state, now) if running else "", answers=answers_of(state),
        places=places_of(state, outlook) if running else (), errors=errors_of(state), best=outlook.best,
        comparisons=comparisons_of(state, outlook.best), next=outlook.actions)
