"""`scientist stop`, `pause`, `kill`, `mark`, `note`: requests to a run, through its `control/` folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from agent.cli.edge import DONE, WrongUse
from agent.cli.options import Run
from agent.cli.status import run_folder
from inspector.follow import process_on
from inspector.text import plain, short
from inspector.tree import SEARCH_KINDS, node_limit
from record.control import refused, send, user
from record.events.running import Commanded
from record.fold.state import RunState
from record.nouns.nodes import STAGES
from record.reading import read_state

WAIT = 2.0
"""Seconds that a command waits for the run to take it."""
POLL = 0.05


Node = Annotated[str, typer.Argument(metavar="NODE", help="As the tree shows it: n0012.")]
Reason = Annotated[str, typer.Option(help="Why; it is recorded.")]
NeededReason = Annotated[str, typer.Option("--reason", help="Why, in a sentence: it is recorded and disclosed.")]


def stop(run: Run, reason: Reason = "") -> int:
    """Ask a run to stop: nodes that run get a short grace, and the run can be resumed."""
    if process_on(run_folder(run)) is None:  # nobody works on it, which is what was asked for
        print(f"nothing to stop: no process works on {run}")
        return DONE
    return ask(run, Commanded(verb="stop", text=reason))


def pause(run: Run, reason: Reason = "") -> int:
    """Pause a run: nothing new begins, what runs finishes, no time counts; resume continues it."""
    return ask(run, Commanded(verb="pause", text=reason))


def kill(run: Run, node: Node, reason: NeededReason) -> int:
    """End the work on a node at once. Its slot is freed; it is neither run again nor debugged."""
    return ask(run, Commanded(verb="kill", target=node, text=reason))


def mark(
    run: Run,
    node: Node,
    reason: NeededReason,
    kind: Annotated[Literal["suspect", "closed"], typer.Option(
        "--as", help="suspect: its numbers are not used; closed: nothing is built on it.")] = "suspect",
) -> int:
    """Mark a node as suspect, so that it is never the best, or as closed, so that nothing builds on it."""
    return ask(run, Commanded(verb="mark", target=node, text=reason, mark=kind))


def note(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Up to 1000 characters.")],
    stage: Annotated[str, typer.Option(
        help="preliminary, tuning, agenda, ablation; by default the current one.")] = "",
) -> int:
    """Show a note to the next prompts of a stage. It is a wish about direction: a later note may withdraw it, and no
    rule of honesty gives way to it."""
    return ask(run, Commanded(verb="note", target=stage, text=text))


def ask(path: Path, command: Commanded) -> int:
    """Send a request to a run, and print what follows. Raises `WrongUse` where it could have no effect."""
    folder = run_folder(path)
    command = command.model_copy(update={"by": user()})
    process, state = process_on(folder), read_state(folder)
    why = refused(state, command, working=process is not None)
    if why is not None:
        raise WrongUse(f"{path}: {why}")
    stage = command.target or state.stage
    file = _send(folder, command)
    what = f"{command.verb} {stage if command.verb == 'note' else command.target}".strip()
    follows = _follows(path, command, state)
    if process is None:
        print(plain(f"{what}: kept, and taken by the next 'scientist resume {path}'"))
    elif _vanished(file):
        _print_outcome(folder, file, f"{what}: taken by {process}; {follows}")
    else:
        print(plain(f"{what}: asked, not taken yet by {process}, which is busy; once it is, {follows}"))
    return DONE


def _send(folder: Path, command: Commanded) -> Path:
    try:
        return send(folder, command)
    except OSError as error:
        raise WrongUse(f"{folder / 'control'} cannot be written to ({error.strerror}): only who started the "
                       "run may steer it") from None


def _vanished(file: Path) -> bool:
    """Whether a file is gone within `WAIT`: the process has dealt with it."""
    end = time.monotonic() + WAIT
    while file.exists():
        if time.monotonic() > end:
            return False
        time.sleep(POLL)
    return True


def _print_outcome(folder: Path, file: Path, taken: str) -> None:
    """Raises `WrongUse` where the run had changed meanwhile, so that the command had no effect."""
    if not any(one.command.file == file.name for one in read_state(folder).steered):
        raise WrongUse(f"it came too late and had no effect; see: scientist status {folder}")
    print(plain(taken))


def _follows(path: Path, command: Commanded, state: RunState) -> str:
    go_on = f"scientist resume {path}"
    return {
        "pause": f"nothing new is begun, and what runs finishes; continue with: {go_on}",
        "resume": "the run continues",
        "stop": f"it ends within its grace; continue with: {go_on}",
        "kill": f"its work is ended, and its slot free: {short(command.text, 80)}",
        "mark": "nothing more is built on it" if command.mark == "closed" else "its numbers are not used in any choice",
        "note": _prompts_that_show(state, command.target or state.stage or ""),
    }[command.verb]


def _prompts_that_show(state: RunState, stage: str) -> str:
    """Which prompts will show a note that is left now."""
    nodes = [node for node in state.nodes.values() if node.stage == stage and node.kind in SEARCH_KINDS]
    limit = next((node_limit(state, name) for name in STAGES if name == stage), None)
    if limit is not None and len(nodes) >= limit:
        return f"its limit of {limit} nodes is reached (search.{stage}.nodes), so no further node will show it"
    begun = [node.id for node in nodes if not node.finished and not node.source_sha256]
    late = f", not those of what is being written ({', '.join(begun)})" if begun else ""
    return f"the next prompts of the stage show it{late}"
