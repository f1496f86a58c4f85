"""Commands to a run through its `control/` folder: `scientist stop`, `pause`, `kill`, `mark`, `note`, `amend` and
`approve`."""

from __future__ import annotations

import time
from pathlib import Path

from labwright.agent.cli.commands import Amend, Approve, Kill, Mark, Note, Pause, Stop
from labwright.agent.cli.errors import DONE
from labwright.agent.cli.status import read_run_events, read_run_state
from labwright.agent.plan_files import check_plan, read_plan, read_text_file
from labwright.agent.settings import adapt
from labwright.inspector.live_view import find_process
from labwright.inspector.safe_text import shorten, to_plain
from labwright.record.campaign import is_campaign
from labwright.record.control_files import find_refusal, read_user_name, send_command
from labwright.record.errors import UsageError
from labwright.record.events.run_events import CommandReceived
from labwright.record.run_folder import RunFolder
from labwright.stages.paper.typesetting import select_best

WAIT_SECONDS = 2.0
"""Seconds to wait for the run to acknowledge a command."""
POLL_SECONDS = 0.05


def run_control_command(args: Stop | Pause | Kill | Mark | Note | Amend | Approve) -> int:
    if isinstance(args, Stop):
        if is_campaign(args.run):
            from labwright.agent.cli import campaign  # heavy import, only needed here

            return campaign.request_stop(args.run)
        read_run_events(args.run)  # raises if this is not a run
        if find_process(args.run) is None:  # already stopped
            print(f"nothing to stop: no process is working on {args.run}")
            return DONE
    if isinstance(args, Approve):
        command = _build_approval(args)
    else:
        given = vars(args) | ({"plan": read_plan(args.plan)} if isinstance(args, Amend) else {})
        fields = {name: value for name, value in given.items() if name != "run"}
        command = CommandReceived.model_validate({"verb": type(args).__name__.lower(), **fields})
    return send_request(args.run, command)


def _build_approval(args: Approve) -> CommandReceived:
    """Build the command that approves what waits at a run's gate, with the user's changes. Raises `UsageError`."""
    state, command = read_run_state(args.run), CommandReceived(verb="approve", text=args.reason)
    gate = state.open_gate
    if gate is None or args.edit is None:
        return command
    if gate.reached.gate == "paper":
        before = select_best(state.paper.drafts).draft
        return command.model_copy(update={"draft": read_text_file(args.edit, before)})
    plan = read_plan(args.edit)
    if gate.reached.gate == "plan" and state.started is not None:
        settings, _ = adapt(state, {}, RunFolder(args.run))
        check_plan(plan, args.edit, state.started.idea, settings)
    return command.model_copy(update={"plan": plan})


def send_request(path: Path, command: CommandReceived) -> int:
    """Send a command to a run and print the result. Raises `UsageError` if it would have no effect."""
    state, process = read_run_state(path), find_process(path)
    command = command.model_copy(update={"by": read_user_name()})
    why = find_refusal(state, command, is_running=process is not None)
    if why is not None:
        raise UsageError(f"{path}: {why}")
    try:
        file = send_command(path, command)
    except OSError as error:
        raise UsageError(
            f"{path / 'control'} is not writable ({error.strerror}): only the user who started the run can control it"
        ) from None
    target = command.target or state.search.stage if command.verb == "note" else command.target
    what, effect = f"{command.verb} {target}".strip(), _describe_effect(path, command)
    if process is None:
        outcome = f"saved for the next 'scientist resume {path}'"
    elif not _is_acknowledged(file):
        outcome = f"sent, but not yet acknowledged by {process}, which is busy; once it is, {effect}"
    elif any(one.command.file == file.name for one in read_run_state(path).user_commands):
        outcome = f"received by {process}; {effect}"
    else:
        raise UsageError(f"the command arrived too late and was ignored; see: scientist status {path}")
    print(to_plain(f"{what}: {outcome}"))
    return DONE


def _is_acknowledged(file: Path) -> bool:
    """Wait briefly for the run to acknowledge a command."""
    end = time.monotonic() + WAIT_SECONDS
    while file.exists() and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return not file.exists()


def _describe_effect(path: Path, command: CommandReceived) -> str:
    resume, has_changes = f"scientist resume {path}", command.plan is not None or command.draft is not None
    return {
        "pause": f"nothing new starts, running work finishes; continue with: {resume}",
        "resume": "the run continues",
        "stop": f"the run ends within its grace period; continue with: {resume}",
        "kill": f"its work is stopped and its slot is freed: {shorten(command.text, 80)}",
        "mark": "it gets no more children" if command.mark == "closed" else "its numbers are not used in decisions",
        "approve": "your changes are checked, then the run continues" if has_changes else "the run continues",
        "amend": "the plan is amended, and the paper discloses it",
        "note": "the next prompts of the stage will show it",
    }[command.verb]
