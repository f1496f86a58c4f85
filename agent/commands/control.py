"""`scientist pause`, `stop`, `kill`, `mark`, `note`: what is asked of a run, through its `control/` folder."""

from __future__ import annotations

import time
from pathlib import Path

from agent.commands.edge import DONE, WrongUse
from agent.commands.look import run_folder
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


def ask(path: Path, command: Commanded) -> int:
    """Ask something of a run, and say what follows. Raises `WrongUse` where it could have no effect."""
    folder = run_folder(path)
    command = command.model_copy(update={"by": user()})
    process, state = process_on(folder), read_state(folder)
    why = refused(state, command, working=process is not None)
    if why is not None:
        raise WrongUse(f"{path}: {why}")
    stage = command.target or state.stage
    file = _sent(folder, command)
    what = f"{command.verb} {stage if command.verb == 'note' else command.target}".strip()
    follows = _follows(path, command, state)
    if process is None:
        print(plain(f"{what}: kept, and taken by the next 'scientist resume {path}'"))
    elif _vanished(file):
        _say_what_became(folder, file, f"{what}: taken by {process}; {follows}")
    else:
        print(plain(f"{what}: asked, not taken yet by {process}, which is busy; once it is, {follows}"))
    return DONE


def stop(path: Path, *, reason: str = "") -> int:
    """Ask a run to stop: nodes that run get a short grace, and the run can be resumed."""
    if process_on(run_folder(path)) is None:  # nobody works on it, which is what was asked for
        print(f"nothing to stop: no process works on {path}")
        return DONE
    return ask(path, Commanded(verb="stop", text=reason))


def _sent(folder: Path, command: Commanded) -> Path:
    try:
        return send(folder, command)
    except OSError as error:
        raise WrongUse(f"{folder / 'control'} cannot be written to ({error.strerror}): who started the run may steer "
                       "it") from None


def _vanished(file: Path) -> bool:
    """Whether a file is gone within `WAIT`: the process has dealt with it."""
    end = time.monotonic() + WAIT
    while file.exists():
        if time.monotonic() > end:
            return False
        time.sleep(POLL)
    return True


def _say_what_became(folder: Path, file: Path, taken: str) -> None:
    """Raises `WrongUse` where the run had changed meanwhile, so that the command had no effect."""
    if not any(one.command.file == file.name for one in read_state(folder).steered):
        raise WrongUse(f"it came too late and had no effect; see: scientist status {folder}")
    print(plain(taken))


def _follows(path: Path, command: Commanded, state: RunState) -> str:
    go_on = f"scientist resume {path}"
    return {
        "pause": f"nothing new is begun, and what runs comes to its end; go on with: {go_on}",
        "resume": "the run goes on",
        "stop": f"it ends within its grace, and goes on with: {go_on}",
        "kill": f"its work is ended, and its place free: {short(command.text, 80)}",
        "mark": "nothing more is built on it" if command.mark == "closed" else "its numbers stay out of what is chosen",
        "note": _shown(state, command.target or state.stage or ""),
    }[command.verb]


def _shown(state: RunState, stage: str) -> str:
    """Which prompts show a note that is left now."""
    nodes = [node for node in state.nodes.values() if node.stage == stage and node.kind in SEARCH_KINDS]
    limit = next((node_limit(state, name) for name in STAGES if name == stage), None)
    if limit is not None and len(nodes) >= limit:
        return f"its limit of {limit} nodes is reached (search.{stage}.nodes), so no further node will show it"
    begun = [node.id for node in nodes if not node.finished and not node.source_sha256]
    late = f", not those of what is being written ({', '.join(begun)})" if begun else ""
    return f"the next prompts of the stage show it{late}"
