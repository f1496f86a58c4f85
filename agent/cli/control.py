"""`scientist stop`, `pause`, `kill`, `mark`, `note`: requests to a run, through its `control/` folder."""

from __future__ import annotations

import time
from pathlib import Path

from labwright.agent.cli.commands import Amend, Kill, Mark, Note, Pause, Stop
from labwright.agent.cli.edge import DONE
from labwright.agent.cli.status import events_of, state_of
from labwright.agent.plans import read_plan
from labwright.inspector.follow import process_on
from labwright.inspector.text import plain, short
from labwright.inspector.tree import node_limit
from labwright.record.campaign import is_campaign
from labwright.record.control import refused, send, user
from labwright.record.errors import WrongUse
from labwright.record.events.running import Commanded
from labwright.record.fold.state import RunState
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES

WAIT = 2.0
"""Seconds that a command waits for the run to take it."""
POLL = 0.05


def steer(asked: Stop | Pause | Kill | Mark | Note | Amend) -> int:
    match asked:
        case Stop() if is_campaign(asked.run):
            from labwright.agent.cli import campaign  # what makes runs, which no other command here needs

            return campaign.stop(asked.run)
        case Stop():
            events_of(asked.run)  # refused where it is none
            if process_on(asked.run) is None:  # which is what was asked for
                print(f"nothing to stop: no process works on {asked.run}")
                return DONE
            command = Commanded(verb="stop", text=asked.reason)
        case Pause():
            command = Commanded(verb="pause", text=asked.reason)
        case Kill():
            command = Commanded(verb="kill", target=asked.node, text=asked.reason)
        case Mark():
            command = Commanded(verb="mark", target=asked.node, text=asked.reason, mark=asked.kind)
        case Note():
            command = Commanded(verb="note", target=asked.stage, text=asked.text)
        case Amend():
            command = Commanded(verb="amend", text=asked.reason, plan=read_plan(asked.plan))
    return ask(asked.run, command)


def ask(path: Path, command: Commanded) -> int:
    """Send a request to a run, and print what follows. Raises `WrongUse` where it could have no effect."""
    state, process = state_of(path), process_on(path)
    command = command.model_copy(update={"by": user()})
    why = refused(state, command, working=process is not None)
    if why is not None:
        raise WrongUse(f"{path}: {why}")
    try:
        file = send(path, command)
    except OSError as error:
        raise WrongUse(
            f"{path / 'control'} cannot be written to ({error.strerror}): only who started the run may steer it"
        ) from None
    target = command.target or state.stage if command.verb == "note" else command.target
    what, effect = f"{command.verb} {target}".strip(), _effect(path, command, state)
    if process is None:
        outcome = f"kept for the next 'scientist resume {path}'"
    elif not _taken(file):
        outcome = f"asked, but not yet received by {process}, which is busy; once it is, {effect}"
    elif any(one.command.file == file.name for one in state_of(path).steered):
        outcome = f"received by {process}; {effect}"
    else:
        raise WrongUse(f"it came too late and had no effect; see: scientist status {path}")
    print(plain(f"{what}: {outcome}"))
    return DONE


def _taken(file: Path) -> bool:
    """Whether the run takes a request soon."""
    end = time.monotonic() + WAIT
    while file.exists() and time.monotonic() < end:
        time.sleep(POLL)
    return not file.exists()


def _effect(path: Path, command: Commanded, state: RunState) -> str:
    go_on = f"scientist resume {path}"
    return {
        "pause": f"nothing new is begun, and what runs finishes; continue with: {go_on}",
        "resume": "the run continues",
        "stop": f"it ends within its grace period; continue with: {go_on}",
        "kill": f"its work is stopped and its slot is free: {short(command.text, 80)}",
        "mark": "nothing more is built on it" if command.mark == "closed" else "its numbers are not used in any choice",
        "amend": "the plan is amended, and the paper tells of it",
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
