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
from pathlib import Path
from typing import NamedTuple, Protocol

from labwright.agent.forecast import check_budget
from labwright.agent.run import settings_to_yaml
from labwright.agent.settings import Settings, override_settings
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
    EntryQueued,
    EntryRefused,
    RunAllowance,
    RunEnded,
    RunLaunched,
    SpendingCaps,
    is_campaign,
    keep_limited,
)
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run, read_state
from labwright.record.float_compare import parse_whole_number
from labwright.record.llm_calls import read_exchanges
from labwright.record.lock import acquire_lock
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import write_file
from labwright.record.schema.decisions import Cost
from labwright.record.schema.idea import Idea, IdeaError, read_ideas
from labwright.stages.ideation.idea_checks import is_text_path, read_text

POLL_SECONDS = 0.2
BACKOFF_SECONDS = 60.0
"""Seconds before a run that died or had a provider outage is resumed; doubled the second time."""
STOP_GRACE_SECONDS = 120.0
"""Seconds that runs get to end after a stop request."""
CONFIG_FILE, STOP_FILE = "config.yaml", "stop"
LOGS_FOLDER, LOCKS_FOLDER, QUEUE_FOLDER = "logs", "locks", "queue"
CampaignListener = Callable[[CampaignEvent], None]

# --- queue ----------------------------------------------------------------------------------------------------------


class CampaignItem(NamedTuple):
    """An idea from a file, the text of a proposal that the model of its run reads, or the reason why it is neither."""

    name: str
    source: str
    idea: Idea | None = None
    text: str = ""
    why: str = ""


def read_campaign_ideas(places: Sequence[Path]) -> Iterator[CampaignItem]:
    """Yield the ideas of files and folders (every .json in them), in order; broken ones are reported and do not stop
    the others.

    A proposal (.md, named as a file) is read by the model of its run, as by `scientist run`. Raises `UsageError` if a
    path does not exist or has no ideas.
    """
    for file in _find_files(places):
        if is_text_path(file):
            yield CampaignItem(to_slug(file.stem), str(file), text=read_text(file))
            continue
        try:
            for number, one in enumerate(read_ideas(file), 1):
                if isinstance(one, Idea):
                    yield CampaignItem(to_slug(one.name), str(file), one)
                else:
                    yield CampaignItem(to_slug(f"{file.stem}-{number}"), str(file), why=str(one))
        except IdeaError as error:
            yield CampaignItem(to_slug(file.stem), str(file), why=str(error))


def _find_files(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        files = sorted(place.glob("*.json")) if place.is_dir() else [place]
        if not place.exists() or not files:
            fault = "has no *.json with ideas" if place.exists() else "does not exist"
            raise UsageError(f"{place} {fault}: give files of ideas, or a folder with some")
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
    parts = sum(not one.why for one in found)
    if not parts:
        raise UsageError(f"none of the {len(found)} ideas can be run: {found[0].why}")
    check_budget_share(settings, terms, parts)
    prepare_folder(folder, settings, terms)
    with closing(CampaignLog(folder)) as log:
        log.append(CampaignStarted(terms=terms, version=version("labwright")))
        for one in found:
            enqueue(log, one)


def check_budget_share(settings: Settings, terms: CampaignTerms, share_count: int) -> None:
    """Refuse a budget that is too small for a paper when divided into this many shares. Raises `UsageError`."""
    caps = {
        f"budget.{what}": int(cap / share_count) if what.endswith("tokens") else cap / share_count
        for what, cap in terms.caps.items()
    }
    try:
        check_budget(override_settings(settings.model_dump(mode="json"), caps))
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
    """Add an idea to the queue, or record why it is refused."""
    if item.idea is not None:
        write_file(log.folder / IDEAS_FOLDER / f"{item.name}.json", item.idea.model_dump_json(by_alias=True, indent=1))
    elif item.text:
        write_file(log.folder / IDEAS_FOLDER / f"{item.name}.md", item.text)
    log.append(EntryQueued(name=item.name, title=item.idea.title if item.idea is not None else "", source=item.source))
    if item.why:
        log.append(EntryRefused(name=item.name, why=item.why))


# --- jobs -----------------------------------------------------------------------------------------------------------


class CampaignJobs(Protocol):
    """The jobs of a campaign."""

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        """Return the command that starts or resumes a job."""
        ...

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded:
        """Return how a job ended, from its output. `returned` is its exit code, if known."""
        ...


@dataclass(frozen=True)
class CampaignRuns:
    """Jobs that run ideas."""

    folder: Path
    program: tuple[str, ...] = (sys.executable, "-m", "labwright")
    """The command that runs `scientist`."""

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        run, limits = self.folder / RUNS_FOLDER / entry.name, share_options(share)
        if not is_run(run):
            idea = self.folder / IDEAS_FOLDER / f"{entry.name}.json"
            idea = idea if idea.is_file() else idea.with_suffix(".md")  # a proposal, read by the run's model
            words = ["run", "--idea", str(idea), "--runs", str(run.parent), "--name", entry.name]
            words += ["--config", str(self.folder / CONFIG_FILE), "--set", f"campaign={self.folder}"]
            return [*self.program, *words, *limits]
        if share.seconds is not None:  # a run's limit counts all of its time, an allowance only the future
            limits += ["--set", f"time_limit={read_state(run).active_seconds + share.seconds:.0f}"]
        return [*self.program, "resume", str(run), *limits]

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded:
        run = self.folder / RUNS_FOLDER / entry.name
        if not is_run(run):
            code = returned if returned is not None and returned >= 0 else None
            return RunEnded(name=entry.name, code=code, why=read_last_line(self.folder, entry.name))
        try:
            state = read_state(run)
            subjects = read_exchanges(run).spent
        except RecordError as error:  # cost unknown: assume the whole allowance
            return RunEnded(name=entry.name, why=str(error), spent=entry.share.caps if entry.share else {})
        code, why = None, "the process was killed or crashed"
        if state.process_end is not None:
            code, why = state.process_end.exit_code, state.process_end.reason
        if code == 130 and returned == 2:  # refused before it was resumed
            code, why = 2, read_last_line(self.folder, entry.name)
        spent = compute_spent(state, subjects)
        return RunEnded(name=entry.name, code=code, why=why, spent=spent, seconds=state.active_seconds)


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
            while self._launch_next():
                pass
        elif time.monotonic() > self._stopped_at + STOP_GRACE_SECONDS:
            self._send_signal(signal.SIGKILL)
            for process in self._processes.values():
                process.wait()
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
            file.unlink()

    def _launch_next(self) -> bool:
        """Start the next job if there is room; return whether one was started."""
        terms, now = self.state.terms, time.monotonic()
        due = (
            one
            for one in self._waiting_entries
            if not one.tries or now >= self._ended_at.get(one.name, 0.0) + self.backoff_seconds * one.tries
        )
        if terms is None or len(self.state.running_entries) >= terms.parallel or not self._has_time_left:
            return False
        if (one := next(due, None)) is None:
            return False
        share = self.state.compute_allowance(one.name, self._log.read_clock())
        try:
            command = self.jobs.build_command(one, share)
        except RecordError as error:
            self._append(EntryRefused(name=one.name, why=str(error)))
            return True
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
        return True

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
        # jobs stopped on request, or together with an earlier process, did not fail by themselves
        requested = event.code in (None, 130) and (self._stopped_at is not None or process is None)
        self._ended_at[one.name] = time.monotonic()
        self._append(event.model_copy(update={"asked": requested}))

    # --- ending -----------------------------------------------------------------------------------------------------

    def _request_stop(self) -> None:
        """Start no further jobs, and ask every job to end gracefully."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._send_signal(signal.SIGINT)

    def _send_signal(self, number: int) -> None:
        """Send a signal to every running job whose process is known."""
        for one in self.state.running_entries:
            if pid := self._find_pid(one.name):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    @contextmanager
    def _handling_signals(self) -> Generator[None]:
        """Handle signals: the first one stops gracefully; the second one is passed on and makes runs stop at once."""

        def handle(number: int, frame: object) -> None:
            if self._stopped_at is None:
                self._request_stop()
            else:
                self._send_signal(signal.SIGINT)

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
