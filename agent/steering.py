"""Takes what people ask of a run that goes on: from `control/` into the record, and from there to what is under way.

Each command is committed before it is obeyed, and its file is deleted after that; one that an event names already is
not taken again. What can have no effect is told in an event, and changes nothing.

The program itself pauses a run in the same way while its disk is nearly full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labwright.record import control
from labwright.record.events.running import Commanded, Unheeded
from labwright.record.events.searching import Amended
from labwright.record.folder import RunFolder, free_gb, write_file
from labwright.record.log import Recorder
from labwright.search.signals import Signals

PROGRAM = "the program"
"""Who paused a run whose disk is nearly full."""
MARGIN = 1.1
LISTED = 5
"""Files without effect that one event names; it counts the others."""


@dataclass
class Steering:
    """What one process was asked. `left` names the files that waited before it took the run up."""

    folder: RunFolder
    recorder: Recorder
    signals: Signals
    stop: Callable[[], None]
    left: frozenset[str] = frozenset()
    _known: set[str] = field(default_factory=set[str])
    """Names that were dealt with, and lie there still: they cannot be deleted, or are not ours to delete."""

    def look(self) -> None:
        """Take what waits now. Raises `RecordError`."""
        found = control.look(self.folder.root)
        problems = [f"{name} is not a plain .json file" for name in found.strange if name not in self._known]
        self._known.update(found.strange)
        taken = {one.command.file for one in self.recorder.state.steered} if found.commands else set[str]()
        for path, command in found.commands:
            if path.name not in self._known and path.name not in taken:
                why = command if isinstance(command, str) else self._take(command)
                problems += [why] if why else []
            try:
                path.unlink()
            except OSError:
                self._known.add(path.name)
        if problems:
            self.recorder.append(Unheeded(number=len(problems), told=tuple(problems[:LISTED])))

    def mind_disk(self, least: float) -> None:
        """Pause the run while its disk has less free than this (10^9 bytes), and let it go on when there is room again.

        A tenth more than that is room, so that a run does not stop and start. Raises `RecordError`, `OSError`.
        """
        held, free = self.recorder.state.held, free_gb(self.folder.root)
        if held is None and free < least and not self.signals.stop.is_set():
            self.recorder.append(
                Commanded(
                    verb="pause",
                    by=PROGRAM,
                    text=(
                        f"only {free:.2f} GB are free where the run lies, and min_free_gb is {least:g}: it goes "
                        f"on by itself "
                        f"once there are {MARGIN * least:.3g}"
                    ),
                )
            )
            self.signals.pause()
        elif held is not None and held.by == PROGRAM and free >= MARGIN * least:
            self.recorder.append(Commanded(verb="resume", by=PROGRAM, text=f"{free:.2f} GB are free again"))
            self.signals.go_on()

    def _take(self, command: Commanded) -> str | None:
        """Record a command and obey it; or why it has no effect."""
        why = control.refused(self.recorder.state, command, working=command.file not in self.left)
        if why is not None:
            return f"{command.verb} {command.target[:40]}".strip() + f": {why}"
        if command.verb == "note" and not command.target:  # the log names the stage, for whoever reads it
            command = command.model_copy(update={"target": self.recorder.state.stage or ""})
        if command.plan is not None:  # first: a kill after it leaves the command to be refused, not the plan unamended
            state = self.recorder.state
            self.recorder.append(
                Amended(
                    number=len(state.amendments) + 1,
                    data_plan=command.plan,
                    why=command.text,
                    by=command.by or "a person",
                    seen=control.seen_by_now(state),
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
                self.signals.go_on()
            case "kill":
                self.signals.kill(command.target)
            case "mark" | "note" | "amend":
                pass  # the record of it is what counts
        return None
