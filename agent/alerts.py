"""Alerts about a run: a command is run on finish, pause, failure and limits.

Each alert runs in its own thread within `TIMEOUT_SECONDS`; a command that fails is logged and never stops a run. At its
end, a run waits up to `TIMEOUT_SECONDS` for its last alerts.

Limits: delivery is not guaranteed; a `kill -9` sends nothing.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from labwright.inspector.event_text import describe_event
from labwright.record.events import Event
from labwright.record.events.run_events import (
    CommandReceived,
    GateEditRefused,
    GateReached,
    LimitReached,
    ProcessEnded,
    ProviderOutage,
    ProviderRecovered,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel

LOGGER = logging.getLogger(__name__)
Occasion = Literal["finish", "pause", "failure", "budget"]
TIMEOUT_SECONDS = 10.0
"""Timeout of a command; alerts are short, and an ending run waits for them."""
FINISHED_EXIT_CODES = (0, 3, 4, 5)
"""Exit codes of a finished run."""


class AlertSettings(FrozenModel):
    """The command that delivers alerts."""

    command: tuple[str, ...] = Field(
        default=(),
        description=(
            "command, as a list of words, to run for each alert, with SCIENTIST_ALERT_OCCASION, _TEXT, _RUN and _TITLE "
            "in its environment (docs/control-a-run.md)"
        ),
    )
    on: tuple[Occasion, ...] = Field(
        default=get_args(Occasion), description="occasions for an alert: finish, pause (and recovery), failure, budget"
    )


@dataclass
class Alerts:
    """A listener of the log that sends alerts."""

    settings: AlertSettings
    run: Path
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def __call__(self, event: Event, state: RunState) -> None:
        occasion = classify_event(event)
        if occasion is not None:
            self.send(occasion, describe_event(event, state) or event.type, state)

    def send(self, occasion: Occasion, text: str, state: RunState) -> None:
        """Send an alert in the background, if a command and its occasion are configured."""
        if occasion not in self.settings.on or not self.settings.command:
            return
        title = state.started.idea.title if state.started else ""
        variables = {"OCCASION": occasion, "TEXT": text, "RUN": str(self.run.absolute()), "TITLE": title}
        thread = threading.Thread(target=run_command, args=(self.settings.command, variables), daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """Wait for alerts being sent, within their timeouts."""
        end = time.monotonic() + 2 * TIMEOUT_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))


def classify_event(event: Event) -> Occasion | None:
    """Return the occasion of an alert for this event; None for most events."""
    if isinstance(event, ProcessEnded):
        return "finish" if event.exit_code in FINISHED_EXIT_CODES else "failure" if event.exit_code != 130 else "pause"
    if isinstance(event, ProviderOutage | ProviderRecovered | GateReached | GateEditRefused) or (
        isinstance(event, CommandReceived) and event.verb == "pause"
    ):
        return "pause"
    return "budget" if isinstance(event, LimitReached) and event.stage is None else None


def run_command(command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run the command of an alert with these variables, named SCIENTIST_ALERT_*. Never raises."""
    try:
        subprocess.run(
            command,
            env={**os.environ, **{f"SCIENTIST_ALERT_{name}": value for name, value in variables.items()}},
            timeout=TIMEOUT_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except Exception as error:  # noqa: BLE001  an alert must not stop a run; the message may contain an address
        LOGGER.warning("alert not sent by alerts.command (%s)", type(error).__name__)
