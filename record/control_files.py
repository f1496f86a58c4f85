"""How other processes speak to a running one: a small file in `control/`, which the writer turns into an event.

A command is taken once: the event names its file, which is deleted only after the event is committed, and a file that
an event names already is deleted unread. What lies in `control/` is read as if a stranger had put it there: plain files
alone, `BYTES` of each at most, no link is followed and nothing is waited for.

Not guaranteed: order between commands that two processes send within the same clock tick, and any order while more than
`LOOKED` files wait. Whoever may write to the run's folder may steer the run.
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from labwright.record.claims.hypothesis_tests import find_cluster_faults
from labwright.record.estimands import find_hypothesis_faults
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.run_state import MARK_PREFIX, RunState, describe_nodes
from labwright.record.run_folder import RunFolder, open_regular, write_file
from labwright.record.schema.frozen_model import replace_unencodable
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Node, StageName

MAX_COMMAND_TEXT_LENGTH = 1000
"""Characters of a reason or a note."""
MAX_COMMAND_FILE_BYTES = 262_144
"""Of a command's file."""
MAX_COMMANDS_READ = 100
"""Commands that one look takes."""
MAX_ENTRIES_SCANNED = 10_000
"""Entries of the folder that one look sees."""
MAX_FILE_NAME_LENGTH = 64
"""Characters of who asked."""
REFUSAL_ADVICE = {
    "note": "; to go on from a point of it with the note: scientist branch RUN --from NODE|STAGE --note TEXT",
    "mark": "; to go on without the node: scientist branch RUN --from NODE|STAGE",
}
"""What a person can do about a run that is over."""
PERSISTENT_VERBS = ("note", "mark", "amend")
"""What is kept for the next resume where no process works on the run."""


class PendingCommands(NamedTuple):
    """What waits in `control/`: commands in order, or why a file is none; and names of entries that are left alone."""

    commands: tuple[tuple[Path, CommandReceived | str], ...] = ()
    ignored_entries: tuple[str, ...] = ()


def send_command(run: Path, command: CommandReceived) -> Path:
    """Drop a command for the process that works on a run. Returns the file, which vanishes when it was taken."""
    path = RunFolder(run).control / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    write_file(path, CommandReceived(**replace_unencodable(command.model_dump())).model_dump_json())
    return path


def read_pending_commands(run: Path) -> PendingCommands:
    """The waiting commands, each with its file (delete it once the event is committed), at most `AT_ONCE` of them.

    A file that is no command comes as a string that says so; it must be deleted too, and reported. Links, pipes,
    folders and files of another name are `strange`: never opened, and left where they are.
    """
    plain: list[Path] = []
    strange: list[str] = []
    try:
        with os.scandir(RunFolder(run).control) as entries:
            for entry in islice(entries, MAX_ENTRIES_SCANNED):
                if entry.name.startswith("."):
                    continue
                name = replace_unencodable(entry.name)
                if name.endswith(".json") and name == entry.name and entry.is_file(follow_symlinks=False):
                    plain.append(Path(entry.path))
                else:
                    strange.append(name)
    except OSError:  # gone or unreadable for a moment: nobody can steer then, and the run goes on
        return PendingCommands()
    return PendingCommands(
        tuple((path, _read_command(path)) for path in sorted(plain)[:MAX_COMMANDS_READ]), tuple(sorted(strange))
    )


def list_pending_files(run: Path) -> frozenset[str]:
    """The files that wait in `control/` now, by name: for a process that takes a run up, what was left for another."""
    return frozenset(path.name for path, _ in read_pending_commands(run).commands)


def read_user_name() -> str:
    """Who asks, as the operating system knows them; empty where it does not say."""
    try:
        return getpass.getuser()[:MAX_FILE_NAME_LENGTH]
    except (OSError, KeyError, ImportError):
        return ""


def find_refusal(state: RunState, command: CommandReceived, *, is_running: bool) -> str | None:
    """Why a command can have no effect on a run as it is now; None where it can. `working`: a process works on it."""
    verb = command.verb
    if state.started is None:
        return "the run has not begun"
    if state.phase == "done" or (state.process_end is not None and state.process_end.exit_code == 0):
        return "the run is over: nothing is left to steer" + REFUSAL_ADVICE.get(verb, "")
    if not is_running and verb not in PERSISTENT_VERBS:
        return f"no process works on the run, so there is nothing to {verb}; 'scientist resume' continues it"
    if verb == "resume":
        return None if state.is_paused else "the run is not paused"
    if verb in ("stop", "pause"):
        if state.stopping:
            return "the run has already been asked to stop"
        return "the run is already paused" if verb == "pause" and state.is_paused else None
    if not command.text.strip():
        return (
            "the note is empty: give the text that the next prompts will show"
            if verb == "note"
            else (f"say why: a reason is recorded with every {verb}")
        )
    if len(command.text) > MAX_COMMAND_TEXT_LENGTH:
        return f"{len(command.text)} characters are too many: a reason or a note has at most {MAX_COMMAND_TEXT_LENGTH}"
    if verb == "amend":
        return _check_amendment(state, command)
    return _check_note(state, command) if verb == "note" else _check_node_command(state, command)


def _read_command(path: Path) -> CommandReceived | str:
    try:
        with open(open_regular(path), "rb") as file:
            text = file.read(MAX_COMMAND_FILE_BYTES + 1)
        if len(text) > MAX_COMMAND_FILE_BYTES:
            return f"{path.name} is too large for a command (more than {MAX_COMMAND_FILE_BYTES} bytes)"
        command = CommandReceived.model_validate_json(text)
        return command.model_copy(update={"file": path.name, "by": command.by[:MAX_FILE_NAME_LENGTH]})
    except ValidationError as error:
        return f"{path.name} is not a command: {error.errors()[0]['msg']}"
    except (ValueError, OSError) as error:
        return f"{path.name} is not a command: {str(error).splitlines()[0]}"


AMENDABLE_FIELDS = frozenset({"hypotheses", "objective", "objective_reason", "untested", "notes"})
"""Fields of the plan that may change in a run: cells, metrics and settings are what its experiments measured."""


def _check_amendment(state: RunState, command: CommandReceived) -> str | None:
    plan, new = state.data_plan, command.plan
    if plan is None or new is None:
        return "the run has no plan yet" if new is not None else "no plan was given"
    if state.current_lock is not None:
        return (
            f"the plan is locked since the agenda settled ({state.current_lock.n} fresh seeds of "
            f"{state.current_lock.winner}): "
            "begin another run with --plan"
        )
    if new == plan:
        return "the plan is as it was"
    changed = [name for name in type(plan).model_fields if getattr(plan, name) != getattr(new, name)]
    if odd := [name for name in changed if name not in AMENDABLE_FIELDS]:
        return f"{', '.join(odd)} of the plan cannot change in a run: begin another one with --plan"
    known = {one.name: one for one in state.datasets}
    return next(find_hypothesis_faults(new), None) or next(find_cluster_faults(new, known), None)


def describe_seen_results(state: RunState) -> str:
    """What had been seen of a run, for an amendment of its plan."""
    measured = sum(node.kind in SEARCH_KINDS and bool(node.measurements) for node in state.nodes.values())
    again = sum(node.kind == "replicate" and bool(node.measurements) for node in state.nodes.values())
    return f"validation values of {measured} experiments and {again} replicates; no test value"


def _check_node_command(state: RunState, command: CommandReceived) -> str | None:
    node = state.nodes.get(command.target)
    if node is None:
        return f"there is no node {command.target[:40]!r}: the run has {describe_nodes(state)}"
    if command.verb == "mark":
        return _check_mark(state, node, command)
    if node.is_finished:
        return f"{node.id} is finished ({node.status}): there is nothing to kill; mark it, if its numbers are wrong"
    return f"{node.id} is already being stopped" if node.id in state.killed_nodes else None


def _check_mark(state: RunState, node: Node, command: CommandReceived) -> str | None:
    if state.stage is None:
        return (
            "the stages are over and what the paper reports is fixed, so that a mark comes too late; stop the run, "
            "or branch from another node"
        )
    if node.status == "cancelled":
        return f"{node.id} was ended before it had a verdict: it is neither chosen nor built on anyway"
    if command.mark == "suspect":
        return f"{node.id} already has this mark" if MARK_PREFIX + command.text in node.suspect else None
    if node.closed:
        return f"{node.id} is already closed"
    if node.kind in ("replicate", "aggregate", "rung"):
        return f"{node.id} is a {node.kind}: nothing builds on it anyway"
    if state.stages[node.stage].best == node.id:
        return (
            f"{node.stage} settled on {node.id}, and the stages after it build on it: branch from another node, or "
            "mark it as suspect"
        )
    return (
        f"the search of {node.stage} is over: nothing builds on {node.id} anyway"
        if (state.stages[node.stage].is_settled)
        else None
    )


def _check_note(state: RunState, command: CommandReceived) -> str | None:
    if command.target and command.target not in STAGES:
        return f"there is no stage {command.target[:40]!r}: name {', '.join(STAGES[:-1])} or {STAGES[-1]}"
    named: StageName | None = next((name for name in STAGES if name == command.target), None)
    stage = named or state.stage
    if stage is None or state.stages[stage].is_settled:
        return f"the search of {stage if command.target else 'all stages'} is over: no prompt to come would show a note"
    return (
        f"nothing new is proposed any more ({state.limit_reason}): no prompt would show a note"
        if state.limit_reason
        else None
    )
