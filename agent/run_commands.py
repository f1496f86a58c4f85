"""Takes what people ask of a run that goes on: from `control/` into the record, and from there to what is under way.

Each command is committed before it is obeyed, and its file is deleted after that; one that an event names already is
not taken again. What can have no effect is told in an event, and changes nothing.

The program itself pauses a run in the same way while its disk is nearly full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labwright.record import control_files
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CommandIgnored, CommandReceived
from labwright.record.events.search_events import PlanAmended
from labwright.record.run_folder import RunFolder, read_free_gb, write_file
from labwright.search.run_control import RunControl

PROGRAM_AUTHOR = "the program"
"""Who paused a run whose disk is nearly full."""
RESUME_DISK_MARGIN = 1.1
MAX_PROBLEMS_LISTED = 5
"""Files without effect that one event names; it counts the others."""


@dataclass
class CommandHandler:
    """What one process was asked. `left` names the files that waited before it took the run up."""

    folder: RunFolder
    recorder: Recorder
    signals: RunControl
    stop: Callable[[], None]
    pending_files: frozenset[str] = frozenset()
    _handled: set[str] = field(default_factory=set[str])
    """Names that were dealt with, and lie there still: they cannot be deleted, or are not ours to delete."""

    def process_commands(self) -> None:
        """Take what waits now. Raises `RecordError`."""
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
        """Pause the run while its disk has less free than this (10^9 bytes), and let it go on when there is room again.

        A tenth more than that is room, so that a run does not stop and start. Raises `RecordError`, `OSError`.
        """
        held, free = self.recorder.state.paused_by, read_free_gb(self.folder.root)
        if held is None and free < min_free_gb and not self.signals.stop_event.is_set():
            self.recorder.append(
                CommandReceived(
                    verb="pause",
                    by=PROGRAM_AUTHOR,
                    text=(
                        f"only {free:.2f} GB are free where the run lies, and min_free_gb is {min_free_gb:g}: it goes "
                        f"on by itself "
                        f"once there are {RESUME_DISK_MARGIN * min_free_gb:.3g}"
                    ),
                )
            )
            self.signals.pause()
        elif held is not None and held.by == PROGRAM_AUTHOR and free >= RESUME_DISK_MARGIN * min_free_gb:
            self.recorder.append(
                CommandReceived(verb="resume", by=PROGRAM_AUTHOR, text=f"{free:.2f} GB are free again")
            )
            self.signals.resume()

    def _apply_command(self, command: CommandReceived) -> str | None:
        """Record a command and obey it; or why it has no effect."""
        why = control_files.find_refusal(
            self.recorder.state, command, is_running=command.file not in self.pending_files
        )
        if why is not None:
            return f"{command.verb} {command.target[:40]}".strip() + f": {why}"
        if command.verb == "note" and not command.target:  # the log names the stage, for whoever reads it
            command = command.model_copy(update={"target": self.recorder.state.stage or ""})
        if command.plan is not None:  # first: a kill after it leaves the command to be refused, not the plan unamended
            state = self.recorder.state
            self.recorder.append(
                PlanAmended(
                    number=len(state.amendments) + 1,
                    data_plan=command.plan,
                    why=command.text,
                    by=command.by or "a person",
                    seen=control_files.describe_seen_results(state),
                )
            )
            write_file(self.folder.root / "data_plan.json", command.plan.model_dump_json(indent=1))
            command = command.model_copy(update={"plan": None})  # the amendment holds it
        self.recorder.append(command)
        match command.verb:
            case "stop":
                self.stop()
            case "pause":
                self.signals.pause()
            case "resume":
                self.signals.resume()
            case "kill":
                self.signals.kill_node(command.target)
            case "mark" | "note" | "amend":
                pass  # the record of it is what counts
        return None
