"""Alerts about a run, sent to a webhook, to ntfy and to a command on finish, pause, failure and limits.

Each alert is sent from its own thread within `TIMEOUT_SECONDS`; failed deliveries are logged and never stop a run. At
its end, a run waits up to `TIMEOUT_SECONDS` for its last alerts.

Limits: delivery is not guaranteed; a `kill -9` sends nothing.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from email.header import Header
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, field_validator

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
"""Timeout of a webhook or command; alerts are short, and an ending run waits for them."""
FINISHED_EXIT_CODES = (0, 3, 4, 5)
"""Exit codes of a finished run."""


class AlertSettings(FrozenModel):
    """The destinations of alerts. A webhook given as `$NAME` is read from the environment and not recorded with the
    run.
    """

    webhook: str = Field(
        default="",
        description="URL to which each alert is posted as JSON, or $NAME (an environment variable); empty: none",
    )
    ntfy: str = Field(
        default="", description="address of a topic of ntfy, such as https://ntfy.sh/TOPIC, or $NAME; empty: none"
    )
    command: tuple[str, ...] = Field(
        default=(),
        description=(
            "command, as a list of words, to run for each alert; the variables SCIENTIST_ALERT_* describe the alert"
        ),
    )
    on: tuple[Occasion, ...] = Field(
        default=get_args(Occasion), description="occasions for an alert: finish, pause (and recovery), failure, budget"
    )

    @field_validator("webhook", "ntfy")
    @classmethod
    def check_address(cls, given: str) -> str:
        if given and not given.startswith(("http://", "https://", "$")):
            raise ValueError(f"must be an http(s) URL or $NAME of an environment variable, not {given[:12]!r}...")
        return given


class Alert(FrozenModel):
    """Content of an alert: JSON for the webhook, or the variables SCIENTIST_ALERT_OCCASION, _TEXT, _RUN and _TITLE
    for the command.
    """

    occasion: Occasion
    text: str
    run: str
    title: str


@dataclass
class Alerts:
    """A listener of the log that sends the configured alerts."""

    settings: AlertSettings
    run: Path
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def __call__(self, event: Event, state: RunState) -> None:
        occasion = classify_event(event)
        if occasion is not None:
            self.send(occasion, describe_event(event, state) or event.type, state)

    def send(self, occasion: Occasion, text: str, state: RunState) -> None:
        """Send an alert in the background, if its occasion is configured."""
        if occasion not in self.settings.on or not (
            self.settings.webhook or self.settings.ntfy or self.settings.command
        ):
            return
        title = state.started.idea.title if state.started else ""
        alert = Alert(occasion=occasion, text=text, run=str(self.run.absolute()), title=title)
        thread = threading.Thread(target=deliver, args=(alert, self.settings), daemon=True)
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


def deliver(alert: Alert, settings: AlertSettings) -> None:
    """Send an alert to the webhook, to ntfy and to the command. Never raises."""

    def post(address: str, data: str, headers: dict[str, str]) -> None:
        if address.startswith("$"):
            address = os.environ[address.strip("${}")]
        request = urllib.request.Request(address, data=data.encode(), headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            answer.read(1)

    def post_json() -> None:
        post(settings.webhook, alert.model_dump_json(), {"Content-Type": "application/json"})

    def post_to_ntfy() -> None:
        title = " ".join(f"scientist: {alert.title or Path(alert.run).name}".split())
        title = title if title.isascii() else Header(title, "utf-8", maxlinelen=1000).encode()  # as ntfy reads it
        priority = "high" if alert.occasion == "failure" else "default"
        post(
            settings.ntfy, f"{alert.text}\n{alert.run}", {"Title": title, "Priority": priority, "Tags": alert.occasion}
        )

    def run() -> None:
        variables = {f"SCIENTIST_ALERT_{name.upper()}": value for name, value in alert.model_dump().items()}
        subprocess.run(
            settings.command,
            env={**os.environ, **variables},
            timeout=TIMEOUT_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    ways = (
        ("webhook", settings.webhook, post_json),
        ("ntfy", settings.ntfy, post_to_ntfy),
        ("command", settings.command, run),
    )
    for way, wanted, send in ways:
        try:
            if wanted:
                send()
        except Exception as error:  # noqa: BLE001  an alert must not stop a run; the message may contain the address
            LOGGER.warning("alert not sent by alerts.%s (%s)", way, type(error).__name__)
