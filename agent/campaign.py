"""Run several ideas under a shared budget; each run is a separate process, so that failures are isolated.

This process alone decides which runs start and with which allowance, and writes the campaign's record; the cost and the
outcome of a run are read from the run's own record. This process does not manage slots: each run requests experiments
as if it had all of them. After an interruption, a new process waits for runs that are still alive, since each holds a
lock that ends with its process.

Limits: the allowance of a run does not grow when others end; runs that start later get the unused allowance.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

from labwright.agent.forecast import check_budget
from labwright.agent.run import settings_to_yaml
from labwright.agent.settings import Settings, compose_settings, override_from_file, override_settings
from labwright.record.campaign import (
    IDEAS_FOLDER,
    RUNS_FOLDER,
    SLOTS_FOLDER,
    CampaignEnded,
    CampaignEntry,
    CampaignEvent,
    CampaignLog,
    CampaignResumed,
    CampaignStarted,
    CampaignState,
    CampaignTerms,
    DecisionForecast,
    EntryQueued,
    EntryRefused,
    IdeasFound,
    PilotTimedOut,
    RunAllowance,
    RunEnded,
    RunLaunched,
    SpendingCaps,
    is_campaign,
    keep_limited,
    read_campaign,
    select_studies,
)
from labwright.record.claims.open_questions import list_surprises
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run, read_events, read_state
from labwright.record.float_compare import parse_whole_number
from labwright.record.line_store import EVENTS_FILE
from labwright.record.llm_calls import read_exchanges
from labwright.record.lock import acquire_lock
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import write_file
from labwright.record.schema.decisions import Cost
from labwright.record.schema.idea import Idea, IdeaError, read_ideas
from labwright.search.design_forecast import CONFIRMATION_SHARE
from labwright.search.replication import forecast_decision
from labwright.search.settings import NUM_PLANNING_SEEDS
from labwright.stages.ideation.idea_checks import is_text_path, read_text

POLL_SECONDS = 0.2
BACKOFF_SECONDS = 60.0
"""Seconds before a run that died or had a provider outage is resumed; doubled the second time."""
STOP_GRACE_SECONDS = 120.0
"""Seconds that runs get to end after a stop request."""
CONFIG_FILE, STOP_FILE = "config.yaml", "stop"
TOPICS_FOLDER, LOGS_FOLDER, LOCKS_FOLDER, QUEUE_FOLDER = "topics", "logs", "locks", "queue"
PILOT_STAGE = "preliminary"
"""The last stage of a pilot."""
PROTOTYPE_SHARE = 0.6
"""Share of a pilot's time in which prototypes may start; the rest is for replicates of the best one."""
CampaignListener = Callable[[CampaignEvent], None]

# --- queue ----------------------------------------------------------------------------------------------------------


class CampaignItem(NamedTuple):
    """An idea from a file, a topic for which to generate ideas, or the reason why an entry is neither. `settings` is a
    separate YAML file for it.
    """

    name: str
    source: str
    idea: Idea | None = None
    settings: Path | None = None
    text: str = ""
    idea_count: int = 0
    why: str = ""


def read_campaign_ideas(places: Sequence[Path]) -> Iterator[CampaignItem]:
    """Yield the ideas of files and folders (every .json in them), in order; broken ones are reported and do not stop
    the others.

    A proposal (.md, named as a file) is read by the model of its run, as by `scientist run`. Settings of a single file
    are in NAME.yaml next to NAME.json. Raises `UsageError` if a path does not exist or has no ideas.
    """
    for file in find_files(places, "*.json", "ideas"):
        own = file.with_suffix(".yaml")
        own = own if own.is_file() else None
        if is_text_path(file):
            yield CampaignItem(to_slug(file.stem), str(file), settings=own, text=read_text(file))
            continue
        try:
            for number, one in enumerate(read_ideas(file), 1):
                if isinstance(one, Idea):
                    yield CampaignItem(to_slug(one.name), str(file), one, own)
                else:
                    yield CampaignItem(to_slug(f"{file.stem}-{number}"), str(file), why=str(one))
        except IdeaError as error:
            yield CampaignItem(to_slug(file.stem), str(file), why=str(error))


def find_files(places: Sequence[Path], pattern: str, what: str) -> Iterator[Path]:
    for place in places:
        files = sorted(place.glob(pattern)) if place.is_dir() else [place]
        if not place.exists() or not files:
            fault = f"has no {pattern} with {what}" if place.exists() else "does not exist"
            raise UsageError(f"{place} {fault}: give files of {what}, or a folder with some")
        yield from files


def to_slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "idea"


def create_campaign(found: Sequence[CampaignItem], settings: Settings, terms: CampaignTerms, folder: Path) -> None:
    """Create the folder of a campaign. Raises `UsageError` if that is not possible, and leaves nothing behind."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not empty: choose another --out"
            + (f", or continue its campaign: scientist resume {folder}" if is_campaign(folder) else "")
        )
    names = [one.name for one in found]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"two ideas are named {twice[0]}: each needs a unique Name")
    parts = sum(max(1, one.idea_count) for one in found if not one.why)
    if not parts:
        raise UsageError(f"none of the {len(found)} ideas can be run: {found[0].why}")
    check_budget_share(settings, terms, parts)
    for one in found:
        if one.settings is not None:
            override_from_file(settings, one.settings)  # raises before anything is created
    prepare_folder(folder, settings, terms)
    with closing(CampaignLog(folder)) as log:
        log.append(CampaignStarted(terms=terms, version=version("labwright")))
        for one in found:
            enqueue(log, one)


def check_budget_share(settings: Settings, terms: CampaignTerms, share_count: int) -> None:
    """Refuse a budget that is too small for a paper when divided into this many shares. Raises `UsageError`."""
    try:
        check_budget(
            override_settings(
                settings.model_dump(mode="json"),
                {
                    f"budget.{what}": int(cap / share_count) if what.endswith("tokens") else cap / share_count
                    for what, cap in terms.caps.items()
                },
            )
        )
    except UsageError as error:
        raise UsageError(f"with the budget divided by {share_count}: {error}") from None


def prepare_folder(folder: Path, settings: Settings, terms: CampaignTerms) -> None:
    """Create the folders of a campaign, its settings, and a file for each slot."""
    for name in (SLOTS_FOLDER, LOCKS_FOLDER, LOGS_FOLDER, QUEUE_FOLDER):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(terms.slots):
        (folder / SLOTS_FOLDER / str(number)).touch()
    write_file(folder / CONFIG_FILE, settings_to_yaml(settings))


def enqueue(log: CampaignLog, item: CampaignItem) -> None:
    """Add an idea or a topic to the queue, or record why it is refused."""
    save_settings(log.folder, item)
    if item.idea is not None:
        save_idea(log.folder, item.name, item.idea)
    elif item.text:
        write_file(log.folder / (TOPICS_FOLDER if item.idea_count else IDEAS_FOLDER) / f"{item.name}.md", item.text)
    log.append(
        EntryQueued(
            name=item.name,
            title=item.idea.title if item.idea is not None else "",
            source=item.source,
            ideas=item.idea_count,
        )
    )
    if item.why:
        log.append(EntryRefused(name=item.name, why=item.why))


def save_settings(folder: Path, item: CampaignItem) -> None:
    """Save the full settings of an idea that has its own settings file. Raises `SettingsError`."""
    if item.settings is not None:
        whole = override_from_file(compose_settings(config=folder / CONFIG_FILE, environment={}), item.settings)
        write_file(folder / IDEAS_FOLDER / f"{item.name}.yaml", settings_to_yaml(whole))


def save_idea(folder: Path, name: str, idea: Idea) -> None:
    write_file(folder / IDEAS_FOLDER / f"{name}.json", idea.model_dump_json(by_alias=True, indent=1))


# --- jobs -----------------------------------------------------------------------------------------------------------


class CampaignJobs(Protocol):
    """The jobs of a campaign."""

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        """Return the command that starts or resumes a job."""
        ...

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded | IdeasFound:
        """Return how a job ended, from its output. `returned` is its exit code, if known."""
        ...


@dataclass(frozen=True)
class CampaignRuns:
    """Jobs that run ideas and generate ideas for topics."""

    folder: Path
    program: tuple[str, ...] = (sys.executable, "-m", "labwright")
    """The command that runs `scientist`."""
    kept: int = 0
    """In a portfolio, the number of runs that may continue after their pilot; 0: runs have no pilot."""

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        run, limits = self.folder / RUNS_FOLDER / entry.name, share_options(share)
        if entry.ideas:
            topic = self.folder / TOPICS_FOLDER / entry.name
            words = ["ideate", "--topic", f"{topic}.md", "-n", str(entry.ideas), "--out", str(topic)]
            return [*self.program, *words, *self._config_options(entry), *limits]
        for name, value in self._list_portfolio_settings(entry, share).items():
            limits += ["--set", f"{name}={'null' if value is None else value}"]
        if not is_run(run):
            idea = self.folder / IDEAS_FOLDER / f"{entry.name}.json"
            idea = idea if idea.is_file() else idea.with_suffix(".md")  # a proposal, read by the run's model
            words = ["run", "--idea", str(idea), "--runs", str(run.parent), "--name", entry.name]
            return [*self.program, *words, *self._config_options(entry), "--set", f"campaign={self.folder}", *limits]
        if share.seconds is not None:  # a run's limit counts all of its time, an allowance only the future
            limits += ["--set", f"time_limit={read_state(run).active_seconds + share.seconds:.0f}"]
        return [*self.program, "resume", str(run), *limits]

    def _list_portfolio_settings(self, entry: CampaignEntry, share: RunAllowance) -> Mapping[str, object]:
        """Return the settings of a pilot, or those with which its study continues; none without a portfolio."""
        if not self.kept:
            return {}
        seconds = None if share.pilot_seconds is None else PROTOTYPE_SHARE * (entry.seconds + share.pilot_seconds)
        pilot = {
            "until": PILOT_STAGE,
            f"search.{PILOT_STAGE}.num_seeds": NUM_PLANNING_SEEDS,
            f"search.{PILOT_STAGE}.time_limit": seconds and f"{max(1.0, seconds):.0f}",
        }
        if not entry.chosen:
            return pilot
        return {**dict.fromkeys(pilot), "search.family": read_campaign(self.folder).confirmed_claims}

    def _config_options(self, entry: CampaignEntry) -> list[str]:
        own = self.folder / IDEAS_FOLDER / f"{entry.name}.yaml"
        return ["--config", str(own if own.is_file() else self.folder / CONFIG_FILE)]

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded | IdeasFound:
        if entry.ideas:
            return self._read_ideas_found(entry, returned)
        run = self.folder / RUNS_FOLDER / entry.name
        unknown = (
            DecisionForecast(name=entry.name, why="its pilot has no readable record") if entry.pilot_over else None
        )
        if not is_run(run):
            return RunEnded(
                name=entry.name,
                code=returned if returned is not None and returned >= 0 else None,
                why=read_last_line(self.folder, entry.name),
                prospect=unknown,
            )
        try:
            state = read_state(run)
            subjects = read_exchanges(run).spent
        except RecordError as error:  # cost unknown: assume the whole allowance
            spent = entry.share.caps if entry.share else {}
            return RunEnded(name=entry.name, why=str(error), spent=spent, prospect=unknown)
        code, why = (
            (None, "the process was killed or crashed")
            if state.process_end is None
            else (state.process_end.exit_code, state.process_end.reason)
        )
        if code == 130 and returned == 2:  # refused before it was resumed
            code, why = 2, read_last_line(self.folder, entry.name)
        over = (code == 130 and state.phase == "tuning") or (code in (None, 130) and entry.pilot_over)
        return RunEnded(
            name=entry.name,
            code=code,
            why=why,
            spent=compute_spent(state, subjects),
            seconds=state.active_seconds,
            prospect=forecast_decisions(state, entry.name, self.kept)
            if self.kept and not entry.chosen and over
            else None,
        )

    def _read_ideas_found(self, entry: CampaignEntry, returned: int | None) -> RunEnded | IdeasFound:
        folder = self.folder / TOPICS_FOLDER / entry.name
        try:
            spent = (
                compute_spent(fold_events(read_events(folder / EVENTS_FILE)))
                if (folder / EVENTS_FILE).exists()
                else SpendingCaps()
            )
        except RecordError:
            spent = entry.share.caps if entry.share else SpendingCaps()
        if returned in (0, 3, None) and (folder / "ideas.json").is_file():
            ideas = [one for one in read_ideas(folder / "ideas.json") if isinstance(one, Idea)]
            taken = set(read_campaign(self.folder).entries)
            if len(ideas) >= entry.ideas or returned == 3:
                return IdeasFound(
                    name=entry.name,
                    spent=spent,
                    ideas=tuple(
                        (self._save_idea_as(entry, number, idea, taken), idea.title)
                        for number, idea in enumerate(ideas, 1)
                    ),
                )
        return RunEnded(
            name=entry.name,
            code=returned if returned in (1, 2, 130) else None,
            spent=spent,
            why=read_last_line(self.folder, entry.name),
        )

    def _save_idea_as(self, entry: CampaignEntry, number: int, idea: Idea, taken: set[str]) -> str:
        """Save an idea of a topic under a unique name and return the name."""
        names = (to_slug(f"{entry.name[:50]}-{number}{more}") for more in ("", *(f"-{n}" for n in range(2, 10_000))))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        save_idea(self.folder, name, idea)
        return name


def share_options(share: RunAllowance) -> list[str]:
    """Convert an allowance to command-line options."""
    limits = [
        f"budget.{what}={int(cap) if what.endswith('tokens') else round(cap, 6)}" for what, cap in share.caps.items()
    ]
    limits += [f"time_limit={max(1.0, share.seconds):.0f}"] if share.seconds is not None else []
    return [word for limit in limits for word in ("--set", limit)]


def compute_spent(state: RunState, subjects: Cost | None = None) -> SpendingCaps:
    """Compute everything that a run spent or may have spent. `subjects` is the cost of its exchanges with studied
    models, which events report late."""
    spent, subjects = state.calls.spent_cost, subjects or Cost()
    subject_tokens = sum(one.input_tokens + one.output_tokens for one in state.calls.llm_usage)
    return keep_limited(
        {
            "usd": spent.usd,
            "tokens": float(spent.tokens),
            "gpu_hours": spent.gpu_seconds / 3600,
            "subject_usd": max(subjects.usd, sum(one.usd for one in state.calls.llm_usage)),
            "subject_tokens": float(max(subjects.tokens, subject_tokens)),
        }
    )


def forecast_decisions(state: RunState, name: str, studies: int) -> DecisionForecast:
    """Forecast, from a pilot, the seeds and hours needed to decide the run's hypotheses, if this many studies with as
    many claims are confirmed together."""
    assert state.started is not None
    search, plan = override_settings(state.started.settings, state.overrides).search, state.search.data_plan
    claims = sum(one.confirmatory for one in plan.hypotheses) if plan is not None else 0
    return forecast_decision(state, search.model_copy(update={"family": studies * claims})).model_copy(
        update={"name": name, "surprises": tuple(one.quote for one in list_surprises(state))}
    )


def read_last_line(folder: Path, name: str) -> str:
    """Return the last line that a process printed."""
    with suppress(OSError):
        lines = (folder / LOGS_FOLDER / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("scientist: ")[:300] if lines else "the process printed nothing"
    return "the process never started"


# --- main loop ------------------------------------------------------------------------------------------------------


@dataclass
class CampaignRunner:
    """Runs a campaign until nothing is left to do or a stop is requested."""

    folder: Path
    jobs: CampaignJobs
    listener: CampaignListener = lambda event: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    poll_seconds: float = POLL_SECONDS
    backoff_seconds: float = BACKOFF_SECONDS
    only_names: Collection[str] | None = None
    """Names of entries to run; None: all waiting ones."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])
    _stopped_at: float | None = None
    _ended_at: dict[str, float] = field(default_factory=dict[str, float])
    """Name -> time of the last end of its job."""

    def run(self, first: Sequence[CampaignEvent] = ()) -> CampaignState:
        """Run the campaign to its end; `first` is recorded first. Raises `UsageError`, `RunLockedError`."""
        with acquire_lock(self.folder), self._handling_signals(), closing(CampaignLog(self.folder)) as self._log:
            (self.folder / STOP_FILE).unlink(missing_ok=True)
            if self.state.terms is None and not first:
                raise UsageError(f"{self.folder} was interrupted before it started: remove it and start again")
            self._append(CampaignResumed())
            for event in first:
                self._log.append(event)
            while self._step():
                time.sleep(self.poll_seconds)
            left = [one.name for one in self.state.entries.values() if one.status in ("waiting", "interrupted")]
            why = "stopped" if self._stopped_at is not None else "the time limit is reached"
            self._append(CampaignEnded(why=f"{why}; {len(left)} left" if left else ""))
        return self.state

    @property
    def state(self) -> CampaignState:
        return self._log.state

    def _step(self) -> bool:
        """Record ended jobs and start new ones; return whether anything is left to wait for."""
        self._import_queued()
        if (self.folder / STOP_FILE).exists():
            self._request_stop()
        for one in self.state.running_entries:
            self._record_end(one)
        if self._stopped_at is None:
            self._end_pilots()
            self._choose_continuing()
            while self._launch_next():
                pass
        elif time.monotonic() > self._stopped_at + STOP_GRACE_SECONDS:
            self._signal_processes()
        return bool(self.state.running_entries) or (
            self._stopped_at is None and bool(self._waiting_entries) and self._has_time_left
        )

    @property
    def _waiting_entries(self) -> list[CampaignEntry]:
        return [one for one in self.state.waiting_entries if self.only_names is None or one.name in self.only_names]

    @property
    def _has_time_left(self) -> bool:
        left = self.state.compute_seconds_left(self._log.read_clock())
        return left is None or left > 0

    def _import_queued(self) -> None:
        """Add the ideas queued since the last call, one per file."""
        for file in sorted((self.folder / QUEUE_FOLDER).glob("*.json")):
            for one in read_campaign_ideas([file]):
                if one.name not in self.state.entries:
                    enqueue(self._log, one)
                    self.listener(EntryQueued(name=one.name))
            file.unlink()

    def _end_pilots(self) -> None:
        """Ask pilots that have reached their time limit to stop, and kill those that do not."""
        for one in self.state.running_entries:
            limit = one.share.pilot_seconds if one.share is not None else None
            if limit is None or one.launched_at is None:
                continue
            over = self._log.read_clock() - one.launched_at - limit
            if over >= 0 and not one.pilot_over:
                self._append(PilotTimedOut(name=one.name))
                self._send_signal(one, signal.SIGINT)
            elif over >= STOP_GRACE_SECONDS:
                self._send_signal(one, signal.SIGKILL)

    def _choose_continuing(self) -> None:
        """Once every pilot has ended, select which runs continue."""
        terms, rest = self.state.terms, [one for one in self.state.entries.values() if one.status == "to be chosen"]
        if terms is None or not rest or self.state.running_entries or self.state.waiting_entries:
            return
        left = self.state.compute_seconds_left(self._log.read_clock())
        hours = inf if left is None else CONFIRMATION_SHARE * left * terms.slots / 3600
        prospects = [one.end.prospect for one in rest if one.end is not None and one.end.prospect is not None]
        self._append(select_studies(prospects, self.state.places_left, hours=hours))

    def _launch_next(self) -> bool:
        """Start the next job if there is room; return whether one was started."""
        terms, now = self.state.terms, time.monotonic()
        rank = {} if self.state.chosen is None else {name: k for k, name in enumerate(self.state.chosen.names)}
        ready = [
            one
            for one in sorted(self._waiting_entries, key=lambda one: rank.get(one.name, len(rank)))
            if now >= self._ended_at.get(one.name, 0.0) + self.backoff_seconds * one.tries or not one.tries
        ]
        if terms is None or not ready or len(self.state.running_entries) >= terms.parallel or not self._has_time_left:
            return False
        self._launch(ready[0], self.state.compute_allowance(ready[0].name, self._log.read_clock()))
        return True

    def _launch(self, one: CampaignEntry, share: RunAllowance) -> None:
        try:
            command = self.jobs.build_command(one, share)
        except RecordError as error:
            self._append(EntryRefused(name=one.name, why=str(error)))
            return
        self._append(RunLaunched(name=one.name, share=share))
        with self._lock_file(one.name) as lock, open(self.folder / LOGS_FOLDER / f"{one.name}.log", "ab") as output:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the child inherits and keeps the lock
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                start_new_session=True,
                pass_fds=(lock,),
            )
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(process.pid).encode(), 0)
        self._processes[one.name] = process

    @contextmanager
    def _lock_file(self, name: str) -> Generator[int]:
        file = os.open(self.folder / LOCKS_FOLDER / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    def _find_pid(self, name: str) -> int | None:
        """Return the process of a running job, even if started by an earlier process; 0: unknown; None: not running."""
        with self._lock_file(name) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return parse_whole_number(os.pread(file, 20, 0).decode(errors="replace")) or 0
        return None

    def _record_end(self, one: CampaignEntry) -> None:
        """Record the end of a job that has ended."""
        process = self._processes.get(one.name)
        if (process is not None and process.poll() is None) or (
            process is None and self._find_pid(one.name) is not None
        ):
            return
        self._processes.pop(one.name, None)
        event = self.jobs.read_end(one, process.returncode if process is not None else None)
        if isinstance(event, RunEnded):
            # jobs stopped on request, or together with an earlier process, did not fail by themselves
            requested = event.code in (None, 130) and (
                self._stopped_at is not None or process is None or one.pilot_over
            )
            event = event.model_copy(update={"asked": requested})
            self._ended_at[one.name] = time.monotonic()
        self._append(event)

    # --- ending -----------------------------------------------------------------------------------------------------

    def _request_stop(self) -> None:
        """Start no further jobs, and ask every job to end gracefully."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._handle_signal(signal.SIGINT)

    def _handle_signal(self, number: int) -> None:
        for one in self.state.running_entries:
            self._send_signal(one, number)

    def _send_signal(self, one: CampaignEntry, number: int) -> None:
        if (pid := self._find_pid(one.name)) is not None and pid > 0:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _signal_processes(self) -> None:
        self._handle_signal(signal.SIGKILL)
        for process in self._processes.values():
            process.wait()

    @contextmanager
    def _handling_signals(self) -> Generator[None]:
        """Handle signals: the first one stops gracefully; the second one is passed on and makes runs stop at once."""

        def handle(number: int, frame: object) -> None:
            if self._stopped_at is None:
                self._request_stop()
            else:
                self._handle_signal(signal.SIGINT)

        names = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup: the campaign continues
            names.append(signal.SIGHUP)
        before = {number: signal.signal(number, handle) for number in names}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _append(self, event: CampaignEvent) -> None:
        self._log.append(event)
        self.listener(event)
