"""Commands from other processes to a running one: small files in `control/`, which the writer turns into events.

Each command is applied once: the event names its file, which is deleted only after the event is committed, and a file
that an event already names is deleted unread. Files in `control/` are treated as untrusted: only regular files of at
most `MAX_COMMAND_FILE_BYTES` are read, no link is followed, and reading never blocks.

Limits: commands that two processes send within one clock tick have no defined order; the same holds for all commands
while more than `MAX_ENTRIES_SCANNED` files wait. Anyone who can write to the run's folder can control the run.
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

from labwright.record.claims.hypothesis_tests import find_cluster_faults, has_test_data
from labwright.record.estimands import find_hypothesis_faults
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.run_state import MARK_PREFIX, RunState, describe_nodes
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema import replace_unencodable
from labwright.record.schema.nodes import SEARCH_KINDS, STAGES, Node, StageName
from labwright.record.untrusted_files import open_plain_file

MAX_COMMAND_TEXT_LENGTH = 1000
MAX_COMMAND_FILE_BYTES = 262_144
MAX_COMMANDS_READ = 100
MAX_ENTRIES_SCANNED = 10_000
MAX_FILE_NAME_LENGTH = 64
"""Maximum characters of a user name."""
REFUSAL_ADVICE = {
    "note": "; to continue from an earlier point with this note: scientist branch RUN --from NODE|STAGE --note TEXT",
    "mark": "; to continue without the node: scientist branch RUN --from NODE|STAGE",
}
PERSISTENT_VERBS = ("note", "mark", "amend", "approve")
"""Commands that are kept for the next resume if no process is working on the run."""


class PendingCommands(NamedTuple):
    """The contents of `control/`: commands in order, or the reason why a file is not a command; and names of
    ignored entries.
    """

    commands: tuple[tuple[Path, CommandReceived | str], ...] = ()
    ignored_entries: tuple[str, ...] = ()


def send_command(run: Path, command: CommandReceived) -> Path:
    """Write a command for the process of a run. Returns the file, which disappears when it is received."""
    path = RunFolder(run).control / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    write_file(path, CommandReceived(**replace_unencodable(command.model_dump())).model_dump_json())
    return path


def read_pending_commands(run: Path) -> PendingCommands:
    """Return the pending commands, each with its file, at most `MAX_COMMANDS_READ`.

    Delete each file once its event is committed. A file that is not a command is returned with an error message; it
    must be reported and deleted too. Links, pipes, folders and files with other names are `ignored_entries`: never
    opened or deleted.
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
    except OSError:  # temporarily gone or unreadable: no commands, and the run continues
        return PendingCommands()
    return PendingCommands(
        tuple((path, _read_command(path)) for path in sorted(plain)[:MAX_COMMANDS_READ]), tuple(sorted(strange))
    )


def list_pending_files(run: Path) -> frozenset[str]:
    """Return the names of the files now pending in `control/`, so that a resuming process knows which predate it."""
    return frozenset(path.name for path, _ in read_pending_commands(run).commands)


def read_user_name() -> str:
    """Return the user's name according to the operating system; empty if unknown."""
    try:
        return getpass.getuser()[:MAX_FILE_NAME_LENGTH]
    except (OSError, KeyError, ImportError):
        return ""


def find_refusal(state: RunState, command: CommandReceived, *, is_running: bool) -> str | None:
    """Return the reason why a command would have no effect on a run in this state; None if it would have one.

    `is_running`: a process is working on the run.
    """
    verb = command.verb
    if state.started is None:
        return "the run has not started"
    if state.phase == "done" or (state.process_end is not None and state.process_end.exit_code == 0):
        return "the run has finished" + REFUSAL_ADVICE.get(verb, "")
    if not is_running and verb not in PERSISTENT_VERBS:
        return f"no process is working on the run, so '{verb}' cannot change it; continue it with 'scientist resume'"
    if len(command.text) > MAX_COMMAND_TEXT_LENGTH:
        return f"the text has {len(command.text)} characters: shorten it to at most {MAX_COMMAND_TEXT_LENGTH}"
    gate = state.open_gate
    if verb == "approve":
        return _check_approval(state, command) if gate is not None else "the run does not wait at a gate"
    if verb in ("resume", "pause") and gate is not None:
        return f"the run waits at the gate {gate.reached.gate}: continue it with 'scientist approve RUN'"
    if verb == "resume":
        return None if state.is_paused else "the run is not paused"
    if verb in ("stop", "pause"):
        if state.stopping:
            return "the run has already been asked to stop"
        return "the run is already paused" if verb == "pause" and state.is_paused else None
    if not command.text.strip():
        asked = "the note is empty: give the text to add to the next prompts"
        return asked if verb == "note" else f"no reason given: every {verb} is recorded with a reason"
    if verb in ("note", "amend") and state.kind != "paper":
        return f"a {verb} changes the search for a paper, which this study does not have"
    if verb == "amend":
        return _check_amendment(state, command)
    return _check_note(state, command) if verb == "note" else _check_node_command(state, command)


def _read_command(path: Path) -> CommandReceived | str:
    try:
        with open(open_plain_file(path), "rb") as file:
            text = file.read(MAX_COMMAND_FILE_BYTES + 1)
        if len(text) > MAX_COMMAND_FILE_BYTES:
            return f"{path.name} is too large for a command (more than {MAX_COMMAND_FILE_BYTES} bytes)"
        command = CommandReceived.model_validate_json(text)
        return command.model_copy(update={"file": path.name, "by": command.by[:MAX_FILE_NAME_LENGTH]})
    except ValidationError as error:
        return f"{path.name} is not a command: {error.errors()[0]['msg']}"
    except (ValueError, OSError) as error:
        return f"{path.name} is not a command: {str(error).splitlines()[0]}"


def _check_approval(state: RunState, command: CommandReceived) -> str | None:
    """Return why an approval is refused. The plan of the gate plan, and a paper, are checked by the step that waits."""
    gate = state.open_gate
    assert gate is not None
    if len(command.model_dump_json()) > MAX_COMMAND_FILE_BYTES:
        return f"the change is too large (more than {MAX_COMMAND_FILE_BYTES} bytes)"
    if command.target and command.target != gate.reached.gate:
        return f"the run waits at the gate {gate.reached.gate}, not {command.target[:40]}"
    if command.draft is not None and gate.reached.gate != "paper":
        return f"a text can only be changed at the gate paper: at {gate.reached.gate}, give a plan (YAML)"
    if command.plan is not None and gate.reached.gate == "paper":
        return "the plan is fixed once the paper is written: at the gate paper, give the text (YAML)"
    if command.plan is not None and gate.reached.gate == "lock":
        return _check_amendment(state, command)
    return None


AMENDABLE_FIELDS = frozenset({"hypotheses", "objective", "objective_reason", "untested", "notes"})
"""Fields of the plan that may change during a run; others (cells, metrics, settings) define the experiments."""


def _check_amendment(state: RunState, command: CommandReceived) -> str | None:
    plan, new, lock = state.search.data_plan, command.plan, state.search.current_lock
    if plan is None or new is None:
        return "the run has no plan yet" if new is not None else "no plan given"
    if lock is not None:
        return f"the plan is locked ({lock.n} fresh seeds of {lock.winner}): start a new run with --plan"
    if new == plan:
        return "the plan is unchanged"
    changed = [name for name in type(plan).model_fields if getattr(plan, name) != getattr(new, name)]
    if odd := [name for name in changed if name not in AMENDABLE_FIELDS]:
        return f"{', '.join(odd)} of the plan cannot change during a run: start a new run with --plan"
    known = {one.name: one for one in state.search.datasets}
    return next(find_hypothesis_faults(new), None) or next(find_cluster_faults(new, known), None)


def describe_seen_results(state: RunState) -> str:
    """Describe the results seen so far, for an amendment of the plan or an addendum."""
    measured = sum(node.kind in SEARCH_KINDS and bool(node.measurements) for node in state.nodes.values())
    again = sum(node.kind == "replicate" and bool(node.measurements) for node in state.nodes.values())
    tests = len(state.search.test_measurements)
    counts = f"values of {measured} experiments and {again} replicates"
    if tests:
        return f"validation {counts}; test values of {tests} runs, every verdict, and the paper"
    if not measured + again or has_test_data(state.nodes.values()):
        return f"validation {counts}; no test value"
    decided = ", every verdict" * bool(state.search.looks) + ", and the paper" * (state.paper.current is not None)
    return f"{counts}{decided}; the study has no test data"


def _check_node_command(state: RunState, command: CommandReceived) -> str | None:
    node = state.nodes.get(command.target)
    if node is None:
        return f"there is no node {command.target[:40]!r}: the run has {describe_nodes(state)}"
    if command.verb == "mark":
        return _check_mark(state, node, command)
    if node.is_finished:
        return f"{node.id} is finished ({node.status}) and cannot be killed; mark it if its numbers are wrong"
    return f"{node.id} is already being stopped" if node.id in state.killed_nodes else None


def _check_mark(state: RunState, node: Node, command: CommandReceived) -> str | None:
    if state.search.stage is None:
        advice = "stop the run, or branch from another node"
        return f"all stages have ended and the result of the paper is fixed, so a mark has no effect: {advice}"
    if node.status == "cancelled":
        return f"{node.id} was cancelled before it had a verdict: it is never selected or built on"
    if command.mark == "suspect":
        return f"{node.id} already has this mark" if MARK_PREFIX + command.text in node.suspect else None
    if node.closed:
        return f"{node.id} is already closed"
    if node.kind in ("replicate", "aggregate", "rung"):
        return f"{node.id} is a {node.kind}: no node builds on it"
    stage = state.search.stages[node.stage]
    if stage.best == node.id:
        advice = "branch from another node, or mark it as suspect"
        return f"{node.stage} selected {node.id}, and later stages build on it: {advice}"
    ended = f"the search of {node.stage} has ended: no further node builds on {node.id}"
    return ended if stage.is_settled else None


def _check_note(state: RunState, command: CommandReceived) -> str | None:
    if command.target and command.target not in STAGES:
        return f"there is no stage {command.target[:40]!r}: use {', '.join(STAGES[:-1])} or {STAGES[-1]}"
    named: StageName | None = next((name for name in STAGES if name == command.target), None)
    stage = named or state.search.stage
    if stage is None or state.search.stages[stage].is_settled:
        where = stage if command.target else "all stages"
        return f"the search of {where} has ended: no further prompt would include the note"
    limit = f"a limit was reached ({state.limit_reason}): no further prompt would include the note"
    return limit if state.limit_reason else None
