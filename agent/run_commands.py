"""Process user commands of a running run: from `control/` into the record, then apply them.

Each command is committed before it is applied, and its file is deleted afterwards; a file named by an event is not
processed again. Ignored commands are reported in an event.

The program pauses a run with such a command while the disk is nearly full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labwright.record import control_files
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CommandIgnored, CommandReceived
from labwright.record.events.search_events import PlanAmended
from labwright.record.run_folder import RunFolder, read_free_gb, write_file
from labwright.search.scheduler import RunControl

PROGRAM_AUTHOR = "the program"
"""Author of pauses because of a nearly full disk."""
RESUME_DISK_MARGIN = 1.1
MAX_PROBLEMS_LISTED = 5
"""Maximum ignored files that an event names; it counts the others."""


@dataclass
class CommandHandler:
    """Handles the commands of one process. `pending` names the files that existed before it started."""

    folder: RunFolder
    recorder: Recorder
    signals: RunControl
    stop: Callable[[], None]
    pending_files: frozenset[str] = frozenset()
    _handled: set[str] = field(default_factory=set[str])
    """Names of processed files that still exist, because they cannot be deleted or belong to another user."""

    def process_commands(self) -> None:
        """Process all waiting commands. Raises `RecordError`."""
        found = control_files.read_pending_commands(self.folder.root)
        problems = [f"{name} is not a plain .json file" for name in found.ignored_entries if name not in self._handled]
        self._handled.update(found.ignored_entries)
        taken = {one.command.file for one in self.recorder.state.user_commands} if found.commands else set[str]()
        for path, command in found.commands:
            if path.name not in self._handled and path.name not in taken:
                why = command if isinstance(command, str) else self._apply_command(command)
                problems += [why] if why else []
            try:
                path.unlink()
            except OSError:
                self._handled.add(path.name)
        if problems:
            self.recorder.append(CommandIgnored(number=len(problems), messages=tuple(problems[:MAX_PROBLEMS_LISTED])))

    def pause_on_full_disk(self, min_free_gb: float) -> None:
        """Pause the run while its disk has less free space than this (10^9 bytes), then resume it.

        Resuming requires 10 % more, so that a run does not keep pausing and resuming. Raises `RecordError`, `OSError`.
        """
        pause, free = self.recorder.state.paused_by, read_free_gb(self.folder.root)
        if pause is None and free < min_free_gb and not self.signals.stop_event.is_set():
            self.recorder.append(
                CommandReceived(
                    verb="pause",
                    by=PROGRAM_AUTHOR,
                    text=(
                        f"only {free:.2f} GB are free on the run's disk, but min_free_gb is {min_free_gb:g}: it "
                        f"resumes automatically once {RESUME_DISK_MARGIN * min_free_gb:.3g} GB are free"
                    ),
                )
            )
            self.signals.pause()
        elif pause is not None and pause.by == PROGRAM_AUTHOR and free >= RESUME_DISK_MARGIN * min_free_gb:
            self.recorder.append(
                CommandReceived(verb="resume", by=PROGRAM_AUTHOR, text=f"{free:.2f} GB are free again")
            )
            self._continue()

    def _continue(self) -> None:
        """Allow new work, unless another reason for a pause remains: a full disk, or a gate."""
        if not self.recorder.state.is_paused:
            self.signals.resume()

    def _apply_command(self, command: CommandReceived) -> str | None:
        """Record and apply a command; return why it is ignored, if it is."""
        why = control_files.find_refusal(
            self.recorder.state, command, is_running=command.file not in self.pending_files
        )
        if why is not None:
            return f"{command.verb} {command.target[:40]}".strip() + f": {why}"
        if command.verb == "note" and not command.target:  # record the stage in the log
            command = command.model_copy(update={"target": self.recorder.state.search.stage or ""})
        gate = self.recorder.state.open_gate
        if command.verb == "approve" and gate is not None:
            command = command.model_copy(update={"target": gate.reached.gate})
        if (
            command.plan is not None and command.target != "plan"
        ):  # first: after a kill here the command is refused, but the plan is amended
            state = self.recorder.state
            self.recorder.append(
                PlanAmended(
                    number=len(state.search.amendments) + 1,
                    data_plan=command.plan,
                    why=command.text or "changed at the gate, without a reason",
                    by=command.by or "the user",
                    seen=control_files.describe_seen_results(state),
                )
            )
            write_file(self.folder.root / "data_plan.json", command.plan.model_dump_json(indent=1))
            command = command.model_copy(update={"plan": None})  # the amendment has the plan
        self.recorder.append(command)
        match command.verb:
            case "stop":
                self.stop()
            case "pause":
                self.signals.pause()
            case "resume" | "approve":
                self._continue()
            case "kill":
                self.signals.kill_node(command.target)
            case "mark" | "note" | "amend":
                pass  # recording is enough
        return None
