"""Choose the point at which a new run branches off from another run's log, and copy the log up to this point with the
files that it names.

A branch point is a prefix of the log, never a selection of events: the state folded from it is the writer's
state at that time, so unfinished work restarts under its number, as after a kill. The copied events keep
their timestamps; `RunBranched` follows them.

Only files that the record refers to are copied: no cache, lock, command file or unsealed attempt. Data, code, figures
and text files are copied; arrays and predictions of sealed attempts, which are never written again, are hard-linked
where the filesystem allows it, so both runs share them on disk.

Limits: writing to a linked file changes both runs. The audit of either run reports it.
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
from labwright.record.events.run_events import RunBranched
from labwright.record.events.search_events import DecisionMade, NodeJudged, StageWinnerChosen
from labwright.record.line_store import LogRow, RecordError
from labwright.record.llm_calls import copy_exchanges
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState, describe_nodes
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import RunFolder, hash_file, hash_texts, read_source
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import STAGES


class BranchPointError(Exception):
    """Raised when no run can branch off at this point. The message gives the reason and the possible points."""


@dataclass(frozen=True)
class LogPrefix:
    """The first events of a log and the state folded from them."""

    events: int
    state: RunState
    later_branchings: tuple[RunBranched, ...] = ()


def cut_log(events: Sequence[tuple[Event, float]], point: str) -> LogPrefix:
    """Return the log prefix before a stage's first decision, or after a node's verdict. Raises `BranchPointError`."""
    state = fold_events(events)
    if state.started is None or state.search.data_plan is None:
        raise BranchPointError("it has no data plan yet, so it cannot be branched: start a new run instead")
    number = _count_before_stage(events, state, point) if point in STAGES else _count_after_node(events, state, point)
    cut = fold_events(events[:number])
    if cut.search.stage is None:
        raise BranchPointError(
            f"{point} was made after the search, when a draft of the paper existed: branch from a "
            f"stage ({', '.join(STAGES)}) or a node of the search"
        )
    return LogPrefix(number, cut, tuple(event for event, _ in events[number:] if isinstance(event, RunBranched)))


def _count_before_stage(events: Sequence[tuple[Event, float]], state: RunState, stage: str) -> int:
    if stage == STAGES[0]:
        decisions = ((at, event.action) for at, (event, _) in enumerate(events) if isinstance(event, DecisionMade))
        return next((at for at, action in decisions if not isinstance(action, RunTask)), len(events))
    before = STAGES[[str(one) for one in STAGES].index(stage) - 1]
    if not state.search.stages[before].is_settled:
        raise BranchPointError(f"the {stage} stage has not started: {state.search.stage} is in progress")
    if state.search.stages[before].best is None:
        raise BranchPointError(f"the {before} stage has no working node: branch from it, or from one of its nodes")
    settled = ((at, event) for at, (event, _) in enumerate(events) if isinstance(event, StageWinnerChosen))
    return 1 + next(at for at, event in settled if event.stage == before)


def _count_after_node(events: Sequence[tuple[Event, float]], state: RunState, point: str) -> int:
    node = state.nodes.get(point)
    if node is None:
        stages = f"neither a stage ({', '.join(STAGES)}) nor a node of this run, which has {describe_nodes(state)}"
        raise BranchPointError(f"{point[:40]!r} is {stages}")
    if not node.is_finished:
        advice = "wait for its verdict, or branch from its parent"
        raise BranchPointError(f"{node.id} is not finished ({node.status}): {advice}")
    judged = ((at, event) for at, (event, _) in enumerate(events) if isinstance(event, NodeJudged))
    return 1 + next(at for at, event in judged if event.node == node.id)


def hash_events(rows: Iterable[LogRow]) -> str:
    """Return the sha256 of events with their timestamps, independent of the log format."""
    digest = hashlib.sha256()
    for at, body in rows:
        line = json.dumps([at, json.loads(body)], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def find_false_ancestry(rows: Sequence[LogRow], state: RunState) -> tuple[RunBranched, ...]:
    """Return the branchings whose copied events do not match the hash in the record."""
    return tuple(
        one.branching for one in state.ancestry if hash_events(rows[: one.branching.events]) != one.branching.sha256
    )


HARD_LINKED_FOLDERS = frozenset({"arrays", "sealed", "artifacts", "checkpoints"})
COPIED_WHOLE = (
    "idea.json data_plan.json packages.lock library.bib context literature/library.bib templates data code/mirror "
    "code/programs".split()
)


def copy_run(parent: RunFolder, target: RunFolder, state: RunState) -> None:
    """Copy the files that the state refers to, and verify the copies. Raises `RecordError`, `OSError`."""
    for name in COPIED_WHOLE:
        _copy(parent.root / name, target.root / name)
    copy_exchanges(parent.root, target.root)
    for node in state.nodes.values():
        if node.source_sha256:
            _copy(parent.get_source_path(node.id), target.get_source_path(node.id))
        for number in (attempt.number for attempt in node.attempts):
            _copy(parent.get_attempt_path(node.id, number), target.get_attempt_path(node.id, number), link=True)
        for n in (plotting.n for plotting in node.plottings):
            _copy(parent.get_plots_path(node.id, n), target.get_plots_path(node.id, n))
    for run in state.cells:
        _copy(parent.get_cell_path(run), target.get_cell_path(run), link=True)
    for one in (*state.calls.answers.values(), *state.calls.superseded_answers, *state.calls.changed_prompts.values()):
        name = f"{one.request_sha256}.json.gz"
        _copy(parent.prompts / name, target.prompts / name)
    audit = "a branch would depend on it: run 'scientist audit' to list all such files"
    for path, expected in list_recorded_files(state, target):
        if not path.is_file() or hash_file(path) != expected:
            missing = parent.root / path.relative_to(target.root)
            raise RecordError(f"{missing} is missing or differs from the record, and {audit}")
    for node in state.nodes.values():
        source = target.get_source_path(node.id)
        if node.source_sha256 and (not source.is_dir() or hash_texts(read_source(source)) != node.source_sha256):
            sealed = parent.get_source_path(node.id)
            raise RecordError(f"{sealed} is not the code that was run according to the record, and {audit}")


def _copy(source: Path, target: Path, *, link: bool = False) -> None:
    """Copy a file, or all regular files in a folder; skip missing paths, links and pipes."""
    paths = [source]
    if source.is_dir() and not source.is_symlink():
        paths = [Path(folder, name) for folder, _, names in os.walk(source) for name in names]
    for path in paths:
        inner = path.relative_to(source)
        if path.is_symlink() or not path.is_file() or any(name.endswith(".part") for name in inner.parts):
            continue
        place = target / inner
        place.parent.mkdir(parents=True, exist_ok=True)
        if link and HARD_LINKED_FOLDERS & set(inner.parts):
            with suppress(OSError):  # another filesystem, a filesystem without links, or a file of another user
                os.link(path, place, follow_symlinks=False)
                continue
        shutil.copy2(path, place, follow_symlinks=False)
