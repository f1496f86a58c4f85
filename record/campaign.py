"""What a campaign of many ideas records: an event a line, appended and synced; what follows from them is its state.

What a run is worth is in the run's own record. Here is only what was queued, what each run may take of the whole, and
how it ended. A last line that a kill cut short is as if it had not been written.

    FOLDER/campaign.jsonl  config.yaml  ideas/NAME.json  topics/NAME.md  runs/NAME  logs/NAME.log  queue/  slots/
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from labwright.record.errors import UsageError
from labwright.record.events.run_events import CampaignMembership
from labwright.record.log_reader import RecordError, is_run, read_state
from labwright.record.schema.frozen_model import FrozenModel

CAMPAIGN_LOG_FILE, IDEAS_FOLDER, RUNS_FOLDER, SLOTS_FOLDER = "campaign.jsonl", "ideas", "runs", "slots"
MAX_RUN_RETRIES = 2
"""Times that a run which died, or whose model was away, is taken up again by itself."""

SpendingCaps = dict[str, float]
"""What is limited (usd, tokens, gpu_hours, subject_usd, subject_tokens) -> how much of it."""


class CampaignTerms(FrozenModel):
    """What holds for all runs of a campaign together."""

    entry_kind: Literal["ideas", "tasks"] = Field(default="ideas", description="tasks: of a benchmark")
    parallel: int = Field(ge=1, description="runs at the same time")
    slots: int = Field(ge=1, description="experiments at the same time, of all runs together")
    caps: SpendingCaps = Field(default_factory=dict, description="most that all runs together may take")
    seconds: float | None = Field(default=None, description="wall clock of the whole, while a process works on it")
    keep: int | None = Field(default=None, ge=1, description="how many go on after the preliminary stage; None: all")


class RunAllowance(FrozenModel):
    """What one run may take, with what it took before."""

    caps: SpendingCaps = Field(default_factory=dict)
    seconds: float | None = None


class DecisionForecast(FrozenModel):
    """How soon a study could decide its claim, by what its preliminary stage showed of spread and time alone."""

    name: str
    wanted: dict[str, int] = Field(default_factory=dict, description="confirmatory hypothesis -> seeds that decide it")
    hypotheses: int = Field(default=0, description="confirmatory ones of its plan")
    seeds: int = Field(default=0, description="the most seeds that it may use")
    seconds: float = Field(default=0.0, description="of one seed: every cell of its program")
    why: str = Field(default="", description="why nothing is known")

    @property
    def decided_count(self) -> int:
        """Hypotheses that the seeds would decide."""
        return sum(n <= self.seeds for n in self.wanted.values())

    @property
    def hours(self) -> float:
        """Of computing, for the seeds that they ask for."""
        return max((n for n in self.wanted.values() if n <= self.seeds), default=self.seeds) * self.seconds / 3600

    @property
    def decided_share_per_hour(self) -> float:
        """The share of its claim that an hour of computing decides."""
        return self.decided_count / self.hypotheses / self.hours if self.hypotheses and self.hours else 0.0


# --- events ---------------------------------------------------------------------------------------------------------


class CampaignStarted(FrozenModel):
    type: Literal["began"] = "began"
    terms: CampaignTerms
    version: str


class CampaignResumed(FrozenModel):
    """A process works on it again, after the one before ended or died; what failed is tried again."""

    type: Literal["taken_up"] = "taken_up"


class EntryQueued(FrozenModel):
    """`ideas`: of a topic, how many are to be found for it; 0: it is an idea itself."""

    type: Literal["queued"] = "queued"
    name: str
    title: str = ""
    source: str = ""
    ideas: int = 0


class EntryRefused(FrozenModel):
    """It cannot be run, and the others go on."""

    type: Literal["refused"] = "refused"
    name: str
    why: str


class RunLaunched(FrozenModel):
    type: Literal["launched"] = "launched"
    name: str
    share: RunAllowance


class RunEnded(FrozenModel):
    """`code`: as `scientist run` exits; None: it was killed, or died. `spent`: all told."""

    type: Literal["ended"] = "ended"
    name: str
    code: int | None = None
    why: str = ""
    spent: SpendingCaps = Field(default_factory=dict)
    asked: bool = Field(default=False, description="whether it was asked to stop, which is no failure")
    prospect: DecisionForecast | None = Field(default=None, description="of one that waits to be chosen")


class IdeasFound(FrozenModel):
    """A topic came to ideas, which are queued with this."""

    type: Literal["found"] = "found"
    name: str
    ideas: tuple[tuple[str, str], ...] = Field(description="name and title")
    spent: SpendingCaps = Field(default_factory=dict)


class StudiesSelected(FrozenModel):
    """Which runs go on after the preliminary stage, best first; the others are set aside."""

    type: Literal["chosen"] = "chosen"
    names: tuple[str, ...]
    order: tuple[DecisionForecast, ...] = Field(description="all that were compared, best first")


class CampaignEnded(FrozenModel):
    type: Literal["campaign_ended"] = "campaign_ended"
    why: str = ""


CampaignEvent = (
    CampaignStarted
    | CampaignResumed
    | EntryQueued
    | EntryRefused
    | RunLaunched
    | RunEnded
    | IdeasFound
    | StudiesSelected
    | CampaignEnded
)
_LINE: TypeAdapter[tuple[float, CampaignEvent]] = TypeAdapter(
    tuple[float, Annotated[CampaignEvent, Field(discriminator="type")]]
)

# --- what follows from them -----------------------------------------------------------------------------------------

EntryStatus = Literal["waiting", "running", "to be chosen", "set aside", "interrupted", "failed", "refused", "done"]


class CampaignEntry(FrozenModel):
    """An idea, or a topic, and what became of it."""

    name: str
    title: str = ""
    ideas: int = Field(default=0, description="of a topic: how many are to be found for it")
    share: RunAllowance | None = Field(default=None, description="of what is under way")
    end: RunEnded | None = None
    tries: int = Field(default=0, description="that failed, since the campaign was last taken up")
    refused: str = ""
    over: bool = Field(default=False, description="of a topic: whether its ideas were found")
    set_aside: bool = False
    chosen: bool = False
    spent: SpendingCaps = Field(default_factory=dict)

    @property
    def status(self) -> EntryStatus:
        if self.refused or (self.end is not None and self.end.code == 2):
            return "refused"
        if self.share is not None:
            return "running"
        if self.over or (self.end is not None and self.end.code in (0, 3, 4)):
            return "done"
        if self.set_aside:
            return "set aside"
        if self.end is None:
            return "waiting"
        if self.end.prospect is not None and not self.chosen:
            return "to be chosen"
        return "interrupted" if self.tries <= MAX_RUN_RETRIES else "failed"

    @property
    def is_open(self) -> bool:
        """Whether it is to be begun, or gone on with."""
        return self.status in ("waiting", "interrupted")

    @property
    def status_reason(self) -> str:
        return self.refused or (self.end.why if self.end is not None else "")


class CampaignState:
    """What follows from the events, one after the other."""

    def __init__(self, events: Iterable[tuple[float, CampaignEvent]] = ()) -> None:
        self.terms: CampaignTerms | None = None
        self.entries: dict[str, CampaignEntry] = {}
        self.chosen: StudiesSelected | None = None
        self.ended: CampaignEnded | None = None
        self.active_seconds = 0.0
        self._last: float | None = None
        for at, event in events:
            self.apply(event, at)

    def apply(self, event: CampaignEvent, at: float) -> None:
        if (
            isinstance(event, RunLaunched | RunEnded | IdeasFound | StudiesSelected | CampaignEnded)
            and self._last is not None
        ):
            self.active_seconds += max(0.0, at - self._last)
        if not isinstance(
            event, CampaignStarted | EntryQueued | EntryRefused
        ):  # those may be written while nobody works on it
            self._last, self.ended = at, None
        match event:
            case CampaignStarted():
                self.terms = event.terms
            case CampaignResumed():
                for one in self.entries.values():
                    self._update_entry(one.name, tries=0)
            case EntryQueued():
                self._update_entry(event.name, title=event.title, ideas=event.ideas, refused="", end=None, over=False)
            case EntryRefused():
                self._update_entry(event.name, refused=event.why)
            case RunLaunched():
                self._update_entry(event.name, share=event.share)
            case RunEnded():
                failed = event.code in (None, 1, 130) and not event.asked and event.prospect is None
                self._update_entry(
                    event.name,
                    share=None,
                    end=event,
                    spent=self._raise_spent(event.name, event.spent),
                    tries=self.entries[event.name].tries + failed,
                )
            case IdeasFound():
                self._update_entry(event.name, share=None, over=True, spent=self._raise_spent(event.name, event.spent))
                for name, title in event.ideas:
                    self._update_entry(name, title=title)
            case StudiesSelected():
                self.chosen = event
                for one in event.order:
                    self._update_entry(one.name, chosen=one.name in event.names, set_aside=one.name not in event.names)
            case CampaignEnded():
                self.ended = event

    def _raise_spent(self, name: str, spent: SpendingCaps) -> SpendingCaps:
        """What one took all told: no less than was told of it before, whatever became of its folder."""
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
        return [one for one in self.entries.values() if one.is_open]

    @property
    def study_entries(self) -> list[CampaignEntry]:
        """The ideas, without topics that they come from."""
        return [one for one in self.entries.values() if not one.ideas]

    def count_committed(self, kind: str) -> float:
        """How much of something is spent, or set aside for what is under way."""
        return sum(
            max(one.spent.get(kind, 0.0), one.share.caps.get(kind, 0.0) if one.share is not None else 0.0)
            for one in self.entries.values()
        )

    def compute_seconds_left(self, now: float) -> float | None:
        """Wall clock that is left at a time; None where there is no limit."""
        if self.terms is None or self.terms.seconds is None:
            return None
        since = max(0.0, now - self._last) if self._last is not None else 0.0
        return max(0.0, self.terms.seconds - self.active_seconds - since)

    def compute_allowance(self, name: str, now: float) -> RunAllowance:
        """What a run may take that begins now: an equal part of what is left, each idea of a topic counted.

        Of the time, what is left divided by the turns in which the others can follow.
        """
        assert self.terms is not None
        one, parts = self.entries[name], sum(max(1, entry.ideas) for entry in self.waiting_entries)
        caps = {
            what: one.spent.get(what, 0.0) + max(0.0, cap - self.count_committed(what)) * max(1, one.ideas) / parts
            for what, cap in self.terms.caps.items()
        }
        left = self.compute_seconds_left(now)
        turns = -(-parts // self.terms.parallel)
        return RunAllowance(caps=caps, seconds=None if left is None else left / turns)


def is_campaign(folder: Path) -> bool:
    return (folder / CAMPAIGN_LOG_FILE).is_file()


def read_campaign(folder: Path) -> CampaignState:
    """The state of the campaign in a folder. Raises `WrongUse` where it is none, or damaged."""
    state = CampaignState()
    try:
        lines = (folder / CAMPAIGN_LOG_FILE).read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{folder} is no campaign ({error.strerror}): give the folder of one") from None
    for number, line in enumerate(lines, 1):
        try:
            at, event = _LINE.validate_json(line)
        except ValidationError:
            if number == len(lines):  # nothing, or what a kill cut short
                break
            raise UsageError(
                f"{folder / CAMPAIGN_LOG_FILE}, line {number}: it was damaged; restore it from a copy"
            ) from None
        state.apply(event, at)
    return state


class CampaignLog:
    """Appends to the record of a campaign. One process at a time (`record.lock.hold`)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, CampaignState()
        self._offset = time.time() - time.monotonic()
        path = folder / CAMPAIGN_LOG_FILE
        if path.exists():
            self.state = read_campaign(folder)
            whole = path.read_bytes()
            if not whole.endswith(b"\n"):
                os.truncate(path, whole.rfind(b"\n") + 1)

    def read_clock(self) -> float:
        """Seconds since 1970 as this process found them, which go on evenly whatever becomes of the machine's clock."""
        return self._offset + time.monotonic()

    def append(self, event: CampaignEvent) -> None:
        """Write an event, and apply it once it is on disk."""
        at = self.read_clock()
        with open(self.folder / CAMPAIGN_LOG_FILE, "ab") as file:
            file.write(_LINE.dump_json((at, event)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.state.apply(event, at)


def count_campaign_peers(folder: Path, run: Path) -> CampaignMembership | None:
    """How many studies a run is one of, and how many others scored the same test data; None of a benchmark's task.

    Raises `WrongUse`.
    """
    if run.resolve().parent != (folder / RUNS_FOLDER).resolve():
        return None
    campaign, own = read_campaign(folder), read_state(run)
    prints = {one.fingerprint: one.name for one in own.datasets}
    tests: dict[str, int] = {}
    for name in campaign.entries:
        other = folder / RUNS_FOLDER / name
        if other.resolve() == run.resolve() or not is_run(other):
            continue
        with suppress(RecordError):
            found = read_state(other)
            for one in found.datasets if found.test_measurements else ():
                if one.fingerprint in prints:
                    tests[prints[one.fingerprint]] = tests.get(prints[one.fingerprint], 0) + 1
    return CampaignMembership(ideas=sum(not one.refused for one in campaign.study_entries), tests=tests)


# --- choosing -------------------------------------------------------------------------------------------------------


def select_studies(prospects: Iterable[DecisionForecast], keep: int) -> StudiesSelected:
    """Which studies go on: those that decide most of their claim an hour, then those that ask for fewest seeds.

    What they measured so far has no part in it: only its spread and its time.
    """

    def rank(one: DecisionForecast) -> tuple[float, float, str]:
        return -one.decided_share_per_hour, max(one.wanted.values(), default=float("inf")), one.name

    order = tuple(sorted(prospects, key=rank))
    return StudiesSelected(names=tuple(one.name for one in order[:keep]), order=order)


def keep_limited(values: Mapping[str, float | None]) -> SpendingCaps:
    """Those that are limited."""
    return {name: float(value) for name, value in values.items() if value is not None}
