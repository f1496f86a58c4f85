"""Record of a campaign of many ideas: an append-only file of events (`record.line_store`), from which the state is
derived.

Results are in the record of each run. This log contains only the queued entries, the budget share of each run, and its
outcome.

  FOLDER/campaign.jsonl  config.yaml  ideas/NAME.json  topics/NAME.md  runs/NAME  logs/NAME.log  queue/  slots/
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from labwright.record.claims.estimates import TARGET_TEST_POWER
from labwright.record.errors import UsageError
from labwright.record.event_log import is_run, read_state
from labwright.record.events.run_events import CampaignMembership
from labwright.record.line_store import LineStore, RecordError, StoredRow, read_stored_rows
from labwright.record.schema import FrozenModel
from labwright.record.table import format_quantity

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
    keep: int | None = Field(default=None, ge=1)
    """In a portfolio, the maximum number of runs that continue after their pilot; None: every run is carried out
    without a pilot."""
    pilot_seconds: float | None = Field(default=None, gt=0, description="time limit of a pilot; None: none")


class RunAllowance(FrozenModel):
    """Limits of one run, including the amounts that it has already used."""

    caps: SpendingCaps = Field(default_factory=dict)
    seconds: float | None = None
    pilot_seconds: float | None = Field(default=None, description="of a pilot, the time after which it is stopped")


class DecisionForecast(FrozenModel):
    """An estimate of how soon a study could decide its claims, based only on the spread and run times of its pilot."""

    name: str
    wanted: dict[str, int] = Field(default_factory=dict)
    """Confirmatory hypothesis -> number of seeds needed to decide it."""
    hypotheses: int = Field(default=0, description="number of confirmatory hypotheses in the plan")
    seeds: int = Field(default=0, description="maximum number of seeds")
    seconds: float = Field(default=0.0, description="compute time of one seed: all cells of the program")
    half_widths: dict[str, float] = Field(default_factory=dict)
    """Confirmatory hypothesis -> expected half-width of its interval after one compute hour of fresh seeds, in smallest
    effects; left out if fewer than two seeds take an hour."""
    matters: tuple[str, ...] = ()
    """What a colleague would learn from each claim, as the plan registers it."""
    surprises: tuple[str, ...] = ()
    """What the pilot's values showed against the plan; no part of the choice."""
    why: str = Field(default="", description="reason why there is no forecast")

    @property
    def decided_count(self) -> int:
        """Number of hypotheses that the allowed number of seeds would decide."""
        return sum(n <= self.seeds for n in self.wanted.values())

    @property
    def hours(self) -> float:
        """Compute hours for the seeds that these hypotheses need."""
        return max((n for n in self.wanted.values() if n <= self.seeds), default=self.seeds) * self.seconds / 3600

    @property
    def decided_per_hour(self) -> float:
        """Expected number of claims that one compute hour decides; each is planned with a power of 80 %."""
        return TARGET_TEST_POWER * self.decided_count / self.hours if self.hours else 0.0

    @property
    def undecided_reason(self) -> str:
        """The reason why no claim can be decided; empty if one can."""
        if self.decided_count:
            return ""
        needs = ", ".join(f"{name} needs {format_quantity(n, 'seed')}" for name, n in self.wanted.items())
        return self.why or f"no claim can be decided: {needs}, at most {self.seeds} are allowed"


# --- events ---------------------------------------------------------------------------------------------------------


class CampaignStarted(FrozenModel):
    type: Literal["began"] = "began"
    terms: CampaignTerms
    version: str


class CampaignResumed(FrozenModel):
    """A process resumes the campaign after the previous process ended or died; failed entries are tried again."""

    type: Literal["taken_up"] = "taken_up"


class EntryQueued(FrozenModel):
    """`ideas`: for a topic, the number of ideas to generate; 0: the entry is an idea itself."""

    type: Literal["queued"] = "queued"
    name: str
    title: str = ""
    source: str = ""
    ideas: int = 0


class EntryRefused(FrozenModel):
    """The entry cannot be run; the others continue."""

    type: Literal["refused"] = "refused"
    name: str
    why: str


class RunLaunched(FrozenModel):
    type: Literal["launched"] = "launched"
    name: str
    share: RunAllowance


class PilotTimedOut(FrozenModel):
    """A pilot reached its time limit and is asked to stop; it is compared with what it measured."""

    type: Literal["pilot_over"] = "pilot_over"
    name: str


class RunEnded(FrozenModel):
    """`code`: exit code of `scientist run`; None if it was killed or died. `spent`, `seconds`: totals so far."""

    type: Literal["ended"] = "ended"
    name: str
    code: int | None = None
    why: str = ""
    spent: SpendingCaps = Field(default_factory=dict)
    seconds: float = Field(default=0.0, description="active time of the run")
    asked: bool = Field(default=False, description="whether it was asked to stop, which does not count as a failure")
    prospect: DecisionForecast | None = Field(default=None, description="forecast for a run that waits for selection")


class IdeasFound(FrozenModel):
    """Ideas were generated for a topic; this event queues them."""

    type: Literal["found"] = "found"
    name: str
    ideas: tuple[tuple[str, str], ...] = Field(description="(name, title) pairs")
    spent: SpendingCaps = Field(default_factory=dict)


class StudiesSelected(FrozenModel):
    """The runs that continue after their pilot, best first; the others are set aside."""

    type: Literal["chosen"] = "chosen"
    names: tuple[str, ...]
    order: tuple[DecisionForecast, ...] = Field(description="all compared runs, best first")
    reasons: dict[str, str] = Field(default_factory=dict, description="run that is set aside -> the reason")


class CampaignEnded(FrozenModel):
    type: Literal["campaign_ended"] = "campaign_ended"
    why: str = ""


CampaignEvent = (
    CampaignStarted
    | CampaignResumed
    | EntryQueued
    | EntryRefused
    | RunLaunched
    | PilotTimedOut
    | RunEnded
    | IdeasFound
    | StudiesSelected
    | CampaignEnded
)
_EVENT: TypeAdapter[CampaignEvent] = TypeAdapter(Annotated[CampaignEvent, Field(discriminator="type")])

# --- state derived from the events ----------------------------------------------------------------------------------

EntryStatus = Literal["waiting", "running", "to be chosen", "set aside", "interrupted", "failed", "refused", "done"]


class CampaignEntry(FrozenModel):
    """An idea or a topic, and its outcome."""

    name: str
    title: str = ""
    ideas: int = Field(default=0, description="for a topic: number of ideas to generate")
    share: RunAllowance | None = Field(default=None, description="limits of the run in progress")
    end: RunEnded | None = None
    tries: int = Field(default=0, description="failures since the campaign was last resumed")
    refused: str = ""
    over: bool = Field(default=False, description="for a topic: whether its ideas were generated")
    set_aside: str = Field(default="", description="the reason why it does not continue after its pilot")
    chosen: bool = False
    prospect: DecisionForecast | None = Field(default=None, description="forecast of its pilot")
    pilot_over: bool = Field(default=False, description="whether its pilot in progress reached its time limit")
    spent: SpendingCaps = Field(default_factory=dict)
    seconds: float = Field(default=0.0, description="active time of the run, without the process in progress")
    launched_at: float | None = None

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
        """Whether the entry must be started or resumed."""
        return self.status in ("waiting", "interrupted")

    @property
    def status_reason(self) -> str:
        return self.refused or self.set_aside or (self.end.why if self.end is not None else "")


class CampaignState:
    """State derived by applying the events in order."""

    def __init__(self, events: Iterable[tuple[float, CampaignEvent]] = ()) -> None:
        self.terms: CampaignTerms | None = None
        self.entries: dict[str, CampaignEntry] = {}
        self.chosen: StudiesSelected | None = None
        self.ended: CampaignEnded | None = None
        self.active_seconds = 0.0
        self._last: float | None = None
        for at, event in events:
            self.apply(event, at)

    def apply_row(self, row: StoredRow) -> None:
        """Apply a stored event. Raises `ValidationError`."""
        self.apply(_EVENT.validate_json(row.body), row.at)

    def apply(self, event: CampaignEvent, at: float) -> None:
        worked = RunLaunched | PilotTimedOut | RunEnded | IdeasFound | StudiesSelected | CampaignEnded
        if isinstance(event, worked) and self._last is not None:
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
                self._update_entry(event.name, title=event.title, ideas=event.ideas, refused="", end=None, over=False)
            case EntryRefused():
                self._update_entry(event.name, refused=event.why)
            case RunLaunched():
                self._update_entry(event.name, share=event.share, launched_at=at)
            case PilotTimedOut():
                self._update_entry(event.name, pilot_over=True)
            case RunEnded():
                failed = event.code in (None, 1, 130) and not event.asked and event.prospect is None
                entry = self.entries[event.name]
                self._update_entry(
                    event.name,
                    share=None,
                    end=event,
                    spent=self._raise_spent(event.name, event.spent),
                    seconds=max(entry.seconds, event.seconds),
                    prospect=event.prospect or entry.prospect,
                    tries=entry.tries + failed,
                )
            case IdeasFound():
                self._update_entry(event.name, share=None, over=True, spent=self._raise_spent(event.name, event.spent))
                for name, title in event.ideas:
                    self._update_entry(name, title=title)
            case StudiesSelected():
                self.chosen = event
                for one in event.order:
                    chosen = one.name in event.names
                    why = "" if chosen else event.reasons.get(one.name, "not among the best")
                    self._update_entry(one.name, chosen=chosen, set_aside=why, pilot_over=False)
            case CampaignEnded():
                self.ended = event

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
        return [one for one in self.entries.values() if one.is_open]

    @property
    def places_left(self) -> int:
        """Number of further runs of a portfolio that may continue after their pilot."""
        keep = self.terms.keep if self.terms is not None else None
        return max(0, (keep or 0) - sum(one.chosen for one in self.entries.values()))

    @property
    def confirmed_claims(self) -> int:
        """Number of claims of the studies of a portfolio that continue."""
        chosen = [one.prospect for one in self.entries.values() if one.chosen]
        return sum(one.hypotheses for one in chosen if one is not None)

    def is_pilot(self, entry: CampaignEntry) -> bool:
        """Return whether an entry is a run of a portfolio that was not selected to continue."""
        return self.terms is not None and self.terms.keep is not None and not entry.ideas and not entry.chosen

    def count_committed(self, kind: str) -> float:
        """Return the amount of a resource that is spent or reserved for runs in progress."""
        caps = (one.share.caps if one.share is not None else {} for one in self.entries.values())
        pairs = zip(self.entries.values(), caps, strict=True)
        return sum(max(one.spent.get(kind, 0.0), own.get(kind, 0.0)) for one, own in pairs)

    def compute_seconds_left(self, now: float) -> float | None:
        """Return the wall-clock seconds left at time `now`; None without a limit."""
        if self.terms is None or self.terms.seconds is None:
            return None
        since = max(0.0, now - self._last) if self._last is not None else 0.0
        return max(0.0, self.terms.seconds - self.active_seconds - since)

    def compute_allowance(self, name: str, now: float) -> RunAllowance:
        """Return the limits of a run that starts now: an equal share of the remainder, counting every idea of a topic.

        The time share is the time left divided by the number of rounds in which the waiting runs can start. A pilot is
        planned for the time that its study gets if it continues, but stopped at the limit of pilots.
        """
        assert self.terms is not None
        one, parts = self.entries[name], sum(max(1, entry.ideas) for entry in self.waiting_entries)
        caps = {
            what: one.spent.get(what, 0.0) + max(0.0, cap - self.count_committed(what)) * max(1, one.ideas) / parts
            for what, cap in self.terms.caps.items()
        }
        left = self.compute_seconds_left(now)
        turns, limit = -(-parts // self.terms.parallel), self.terms.pilot_seconds
        seconds = None if left is None else left / turns
        if limit is None or not self.is_pilot(one):
            return RunAllowance(caps=caps, seconds=seconds)
        pilot = max(1.0, limit - one.seconds)
        if left is not None:
            later = max(0.0, left - turns * limit) / -(-max(1, self.places_left) // self.terms.parallel)
            seconds, pilot = min(left, pilot + later), min(left, pilot)
        return RunAllowance(caps=caps, seconds=seconds, pilot_seconds=pilot)


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
    return CampaignMembership(
        ideas=sum(not one.refused and not one.ideas for one in campaign.entries.values()), tests=dict(tests)
    )


# --- selection ------------------------------------------------------------------------------------------------------


def select_studies(prospects: Iterable[DecisionForecast], keep: int, *, hours: float = inf) -> StudiesSelected:
    """Select the studies that continue: in the order of expected decided claims per compute hour, then of the fewest
    seeds, at most `keep` that fit together into `hours` of fresh seeds.

    Measured values do not matter; only their spread and the run time do. The seeds and test data that confirm a study
    are others than those of its pilot, so the choice does not change the level of its tests, and only the claims of
    the selected studies are in the family of Holm's correction (`hypothesis_tests.decide_across_runs`).

    Sources: Cox 1975, "A note on data-splitting for the evaluation of significance levels"; Dantzig 1957,
    "Discrete-variable extremum problems" (the greedy order by value per cost).
    """
    order = tuple(sorted(prospects, key=rank_forecast))
    names, reasons, left = list[str](), dict[str, str](), hours
    for number, one in enumerate(order, 1):
        if not one.decided_count:
            reasons[one.name] = one.undecided_reason
        elif len(names) >= keep:
            rank = f"rank {number} of {len(order)} by expected decided claims per hour"
            reasons[one.name] = f"{rank}; {keep} may continue"
        elif one.hours > left:
            need = f"its claims need {one.hours:.3g} compute hours"
            reasons[one.name] = f"{need}, and {left:.3g} are left for fresh seeds"
        else:
            names.append(one.name)
            left -= one.hours
    return StudiesSelected(names=tuple(names), order=order, reasons=reasons)


def rank_forecast(one: DecisionForecast) -> tuple[float, float, str]:
    """Return the sort key of a forecast; the best comes first."""
    return -one.decided_per_hour, max(one.wanted.values(), default=inf), one.name


def keep_limited(values: Mapping[str, float | None]) -> SpendingCaps:
    """Return the resources that have a limit."""
    return {name: float(value) for name, value in values.items() if value is not None}
