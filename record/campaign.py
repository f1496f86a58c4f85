"""Record of a campaign of many ideas: an append-only file of events (`record.line_store`), from which the state is
derived.

Results are in the record of each run. This log contains only the queued entries, the budget share of each run, and its
outcome.

  FOLDER/campaign.jsonl  config.yaml  ideas/NAME.json  runs/NAME  logs/NAME.log  queue/  slots/
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from labwright.record.errors import UsageError
from labwright.record.event_log import is_run, read_state
from labwright.record.events.run_events import CampaignMembership
from labwright.record.line_store import LineStore, RecordError, StoredRow, read_stored_rows
from labwright.record.schema import FrozenModel, TaggedModel, build_adapter

CAMPAIGN_LOG_FILE, IDEAS_FOLDER, RUNS_FOLDER, SLOTS_FOLDER = "campaign.jsonl", "ideas", "runs", "slots"
MAX_RUN_RETRIES = 2

SpendingCaps = dict[str, float]
"""Limited resource (usd, tokens, gpu_hours, subject_usd, subject_tokens) -> its cap."""


class CampaignTerms(FrozenModel):
    """Settings and limits shared by all runs of a campaign."""

    entry_kind: Literal["ideas", "tasks"] = "ideas"
    """Tasks: the entries are tasks of a benchmark."""
    parallel: int = Field(ge=1, description="number of runs in parallel")
    slots: int = Field(ge=1, description="number of experiments in parallel, over all runs")
    caps: SpendingCaps = Field(default_factory=dict, description="caps for all runs together")
    seconds: float | None = None
    """Wall-clock limit of the campaign, counted while a process is working on it."""


class RunAllowance(FrozenModel):
    """Limits of one run, including the amounts that it has already used."""

    caps: SpendingCaps = Field(default_factory=dict)
    seconds: float | None = None


# --- events ---------------------------------------------------------------------------------------------------------


class CampaignEvent(TaggedModel):
    """A fact about a campaign."""


class CampaignStarted(CampaignEvent, type="began"):
    terms: CampaignTerms
    version: str


class CampaignResumed(CampaignEvent, type="taken_up"):
    """A process resumes the campaign after the previous process ended or died; failed entries are tried again."""


class EntryQueued(CampaignEvent, type="queued"):
    name: str
    title: str = ""
    source: str = ""


class EntryRefused(CampaignEvent, type="refused"):
    """The entry cannot be run; the others continue."""

    name: str
    why: str


class RunLaunched(CampaignEvent, type="launched"):
    name: str
    share: RunAllowance


class RunEnded(CampaignEvent, type="ended"):
    """`code`: exit code of `scientist run`; None if it was killed or died. `spent`, `seconds`: totals so far."""

    name: str
    code: int | None = None
    why: str = ""
    spent: SpendingCaps = Field(default_factory=dict)
    seconds: float = Field(default=0.0, description="active time of the run")
    asked: bool = Field(default=False, description="whether it was asked to stop, which does not count as a failure")


class CampaignEnded(CampaignEvent, type="campaign_ended"):
    why: str = ""


_EVENT = build_adapter(CampaignEvent)

# --- state derived from the events ----------------------------------------------------------------------------------

EntryStatus = Literal["waiting", "running", "interrupted", "failed", "refused", "done"]


class CampaignEntry(FrozenModel):
    """An idea and its outcome."""

    name: str
    title: str = ""
    share: RunAllowance | None = Field(default=None, description="limits of the run in progress")
    end: RunEnded | None = None
    tries: int = Field(default=0, description="failures since the campaign was last resumed")
    refused: str = ""
    spent: SpendingCaps = Field(default_factory=dict)

    @property
    def status(self) -> EntryStatus:
        if self.refused or (self.end is not None and self.end.code == 2):
            return "refused"
        if self.share is not None:
            return "running"
        if self.end is None:
            return "waiting"
        if self.end.code in (0, 3, 4):
            return "done"
        return "interrupted" if self.tries <= MAX_RUN_RETRIES else "failed"

    @property
    def status_reason(self) -> str:
        return self.refused or (self.end.why if self.end is not None else "")


class CampaignState:
    """State derived by applying the events in order."""

    def __init__(self) -> None:
        self.terms: CampaignTerms | None = None
        self.entries: dict[str, CampaignEntry] = {}
        self.ended: CampaignEnded | None = None
        self.active_seconds = 0.0
        self._last: float | None = None

    def apply_row(self, row: StoredRow) -> None:
        """Apply a stored event. Raises `ValidationError`."""
        self.apply(_EVENT.validate_json(row.body), row.at)

    def apply(self, event: CampaignEvent, at: float) -> None:
        if isinstance(event, RunLaunched | RunEnded | CampaignEnded) and self._last is not None:
            self.active_seconds += max(0.0, at - self._last)
        # these three events may be written while no process is working on the campaign
        if not isinstance(event, CampaignStarted | EntryQueued | EntryRefused):
            self._last, self.ended = at, None
        match event:
            case CampaignStarted():
                self.terms = event.terms
            case CampaignResumed():
                for one in self.entries.values():
                    self._update_entry(one.name, tries=0)
            case EntryQueued():
                self._update_entry(event.name, title=event.title, refused="", end=None)
            case EntryRefused():
                self._update_entry(event.name, refused=event.why)
            case RunLaunched():
                self._update_entry(event.name, share=event.share)
            case RunEnded():
                failed = event.code in (None, 1, 130) and not event.asked
                self._update_entry(
                    event.name,
                    share=None,
                    end=event,
                    spent=self._raise_spent(event.name, event.spent),
                    tries=self.entries[event.name].tries + failed,
                )
            case CampaignEnded():
                self.ended = event
            case _:
                pass

    def _raise_spent(self, name: str, spent: SpendingCaps) -> SpendingCaps:
        """Return the total spent by an entry: never less than previously recorded, even if its folder is gone."""
        known = self.entries[name].spent if name in self.entries else {}
        return {what: max(known.get(what, 0.0), spent.get(what, 0.0)) for what in {**known, **spent}}

    def _update_entry(self, name: str, **changes: object) -> None:
        known = self.entries.get(name, CampaignEntry(name=name))
        self.entries[name] = known.model_copy(update=changes)

    @property
    def running_entries(self) -> list[CampaignEntry]:
        return [one for one in self.entries.values() if one.status == "running"]

    @property
    def waiting_entries(self) -> list[CampaignEntry]:
        """Entries that must be started or resumed."""
        return [one for one in self.entries.values() if one.status in ("waiting", "interrupted")]

    def count_committed(self, kind: str) -> float:
        """Return the amount of a resource that is spent or reserved for runs in progress."""
        return sum(
            max(one.spent.get(kind, 0.0), one.share.caps.get(kind, 0.0) if one.share is not None else 0.0)
            for one in self.entries.values()
        )

    def compute_seconds_left(self, now: float) -> float | None:
        """Return the wall-clock seconds left at time `now`; None without a limit."""
        if self.terms is None or self.terms.seconds is None:
            return None
        since = max(0.0, now - self._last) if self._last is not None else 0.0
        return max(0.0, self.terms.seconds - self.active_seconds - since)

    def compute_allowance(self, name: str, now: float) -> RunAllowance:
        """Return the limits of a run that starts now: an equal share of the remainder.

        The time share is the time left divided by the number of rounds in which the waiting runs can start.
        """
        assert self.terms is not None
        one, parts = self.entries[name], len(self.waiting_entries)
        caps = {
            what: one.spent.get(what, 0.0) + max(0.0, cap - self.count_committed(what)) / parts
            for what, cap in self.terms.caps.items()
        }
        left = self.compute_seconds_left(now)
        turns = -(-parts // self.terms.parallel)
        return RunAllowance(caps=caps, seconds=None if left is None else left / turns)


def is_campaign(folder: Path) -> bool:
    return (folder / CAMPAIGN_LOG_FILE).is_file()


def read_campaign(folder: Path) -> CampaignState:
    """Return the state of the campaign in a folder. Raises `UsageError` if it is not a campaign or is damaged."""
    path, state = folder / CAMPAIGN_LOG_FILE, CampaignState()
    if not path.is_file():
        raise UsageError(f"{folder} is not a campaign (it has no {path.name}): give the folder of a campaign")
    try:
        for row in read_stored_rows(path):
            state.apply_row(row)
    except (RecordError, ValidationError) as error:
        raise UsageError(" ".join(str(error).split())) from None
    return state


class CampaignLog:
    """Append to the record of a campaign. Only one process may do so at a time (`record.lock`)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, CampaignState()
        self._store = LineStore(folder / CAMPAIGN_LOG_FILE, "campaign", self.state.apply_row)
        self._offset = max(time.time(), self._store.last_at) - time.monotonic()

    def read_clock(self) -> float:
        """Return seconds since 1970, monotonic even if the system clock is changed."""
        return self._offset + time.monotonic()

    def append(self, event: CampaignEvent) -> None:
        """Write an event to disk, then apply it."""
        at = self.read_clock()
        self._store.append(at, event.model_dump_json())
        self.state.apply(event, at)

    def close(self) -> None:
        self._store.close()


def count_campaign_peers(folder: Path, run: Path) -> CampaignMembership | None:
    """Count the studies of a run's campaign, and those that scored the same test data; None for a benchmark task.

    Raises `UsageError`.
    """
    if run.resolve().parent != (folder / RUNS_FOLDER).resolve():
        return None
    campaign, own = read_campaign(folder), read_state(run)
    prints = {one.fingerprint: one.name for one in own.search.datasets}
    tests = Counter[str]()
    folders = (folder / RUNS_FOLDER / name for name in campaign.entries)
    for other in (one for one in folders if one.resolve() != run.resolve() and is_run(one)):
        with suppress(RecordError):
            found = read_state(other).search
            tests.update(prints[one.fingerprint] for one in found.tested_datasets if one.fingerprint in prints)
    return CampaignMembership(ideas=sum(not one.refused for one in campaign.entries.values()), tests=dict(tests))


def keep_limited(values: Mapping[str, float | None]) -> SpendingCaps:
    """Return the resources that have a limit."""
    return {name: float(value) for name, value in values.items() if value is not None}
