"""Many ideas under one budget: each run is a process of its own, so that what dies takes nothing with it.

This process alone decides who runs and what each may take, and writes the campaign's record; what a run spent and how
it ended is read from its own. Slots are no affair of this process: each run asks for experiments as if it had all of
them, and all take turns at the same locks (`sandbox.slots`). A kill of this process leaves runs working; the next one
waits for them as if it had begun them, since each holds a lock that ends with its process.

Not promised: that the share of a run grows when others end. What they leave goes to those that begin.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

from labwright.agent.budget import check_budget
from labwright.agent.ideation import LOG as IDEATION
from labwright.agent.run import as_yaml
from labwright.agent.settings import Settings, compose, override, with_file
from labwright.record.campaign import (
    IDEAS,
    RUNS,
    SLOTS,
    Amounts,
    CampaignBegan,
    CampaignEnded,
    CampaignEvent,
    CampaignLog,
    CampaignState,
    Entry,
    IdeasFound,
    Launched,
    Prospect,
    Queued,
    Refused,
    RunEnded,
    Share,
    TakenUp,
    Terms,
    amounts,
    chosen,
    is_campaign,
    read_campaign,
)
from labwright.record.errors import WrongUse
from labwright.record.exchanges import spent_in
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.folder import write_file
from labwright.record.lock import hold
from labwright.record.nouns.decisions import Spending
from labwright.record.nouns.idea import Idea, IdeaError, read_ideas
from labwright.record.reading import RecordError, is_run, read_events, read_state
from labwright.record.whole_numbers import parse_whole_number
from labwright.search.replication import prospect_of
from labwright.stages.ideation.converting import is_text, read_text

POLL = 0.2
BACKOFF = 60.0
"""Seconds before a run that died, or whose model was away, is taken up again; twice as many the second time."""
GRACE = 120.0
"""Seconds that runs get to end after a request to stop."""
CONFIG, TOPICS, LOGS, LOCKS, QUEUE, STOP = "config.yaml", "topics", "logs", "locks", "queue", "stop"
UNTIL = "preliminary"
"""The stage after which it is chosen what goes on."""
Told = Callable[[CampaignEvent], None]

# --- what is queued -------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """An idea of a file, a topic to find `ideas` for, or why there is none. `settings`: a YAML file of its own."""

    name: str
    source: str
    idea: Idea | None = None
    settings: Path | None = None
    text: str = ""
    ideas: int = 0
    why: str = ""


def ideas_in(places: Sequence[Path]) -> Iterator[Found]:
    """The ideas of files and folders (every .json of each), in order; a broken one is told, the others go on.

    A proposal (.md, named as a file) is read by the model of its run, as by `scientist run`.
    Settings of a file's own stand beside it, NAME.yaml beside NAME.json. Raises `WrongUse` where a place is not there,
    or holds none.
    """
    for file in files_in(places, "*.json", "ideas"):
        own = file.with_suffix(".yaml")
        own = own if own.is_file() else None
        if is_text(file):
            yield Found(slug(file.stem), str(file), settings=own, text=read_text(file))
            continue
        try:
            for number, one in enumerate(read_ideas(file), 1):
                if isinstance(one, Idea):
                    yield Found(slug(one.name), str(file), one, own)
                else:
                    yield Found(slug(f"{file.stem}-{number}"), str(file), why=str(one))
        except IdeaError as error:
            yield Found(slug(file.stem), str(file), why=str(error))


def files_in(places: Sequence[Path], pattern: str, what: str) -> Iterator[Path]:
    for place in places:
        files = sorted(place.glob(pattern)) if place.is_dir() else [place]
        if not place.exists() or not files:
            fault = f"holds no {pattern} with {what}" if place.exists() else "is not there"
            raise WrongUse(f"{place} {fault}: name files of {what}, or a folder that holds some")
        yield from files


def slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "idea"


def begin(found: Sequence[Found], settings: Settings, terms: Terms, folder: Path) -> None:
    """Make the folder of a campaign. Raises `WrongUse` where it cannot be one; then nothing is left behind."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUse(
            f"{folder} is not empty: choose another --out"
            + (f", or go on with the campaign in it: scientist resume {folder}" if is_campaign(folder) else "")
        )
    names = [one.name for one in found]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise WrongUse(f"two ideas are called {twice[0]}: runs are told apart by the idea's Name; change one")
    parts = sum(max(1, one.ideas) for one in found if not one.why)
    if not parts:
        raise WrongUse(f"none of the {len(found)} ideas can be run: {found[0].why}")
    check_share(settings, terms, parts)
    for one in found:
        if one.settings is not None:
            with_file(settings, one.settings)  # refused before anything is made
    prepare(folder, settings, terms)
    log = CampaignLog(folder)
    log.append(CampaignBegan(terms=terms, version=version("labwright")))
    for one in found:
        add(log, one)


def check_share(settings: Settings, terms: Terms, parts: int) -> None:
    """Refuse a budget that, in so many parts, cannot hold one paper. Raises `WrongUse`."""
    try:
        check_budget(
            override(
                settings.model_dump(mode="json"),
                {
                    f"budget.{what}": int(cap / parts) if what.endswith("tokens") else cap / parts
                    for what, cap in terms.caps.items()
                },
            )
        )
    except WrongUse as error:
        raise WrongUse(f"a part for each of {parts}: {error}") from None


def prepare(folder: Path, settings: Settings, terms: Terms) -> None:
    """The folders of a campaign, its settings, and a file for each slot."""
    for name in (SLOTS, LOCKS, LOGS, QUEUE):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(terms.slots):
        (folder / SLOTS / str(number)).touch()
    write_file(folder / CONFIG, as_yaml(settings))


def add(log: CampaignLog, one: Found) -> None:
    """Put an idea or a topic into the queue, or say why it cannot be."""
    keep_settings(log.folder, one)
    if one.idea is not None:
        keep_idea(log.folder, one.name, one.idea)
    elif one.text:
        write_file(log.folder / (TOPICS if one.ideas else IDEAS) / f"{one.name}.md", one.text)
    log.append(
        Queued(name=one.name, title=one.idea.title if one.idea is not None else "", source=one.source, ideas=one.ideas)
    )
    if one.why:
        log.append(Refused(name=one.name, why=one.why))


def keep_settings(folder: Path, one: Found) -> None:
    """Of an idea that has settings of its own, all of its settings. Raises `SettingsError`."""
    if one.settings is not None:
        whole = with_file(compose(config=folder / CONFIG, environment={}), one.settings)
        write_file(folder / IDEAS / f"{one.name}.yaml", as_yaml(whole))


def keep_idea(folder: Path, name: str, idea: Idea) -> None:
    write_file(folder / IDEAS / f"{name}.json", idea.model_dump_json(by_alias=True, indent=1))


# --- what its processes do ------------------------------------------------------------------------------------------


class Jobs(Protocol):
    """What the processes of a campaign do."""

    def command(self, entry: Entry, share: Share) -> list[str]:
        """What begins a job, or goes on with it."""
        ...

    def ended(self, entry: Entry, returned: int | None) -> RunEnded | IdeasFound:
        """How it ended, from what it left. `returned`: its exit code, where it is known."""
        ...


@dataclass(frozen=True)
class Runs:
    """Runs of ideas, and the ideation of topics."""

    folder: Path
    program: tuple[str, ...] = (sys.executable, "-m", "labwright")
    """What makes a run: it is called as `scientist` is."""
    keep: bool = False
    """Whether runs stop after their preliminary stage until it is chosen which go on."""

    def command(self, entry: Entry, share: Share) -> list[str]:
        run, limits = self.folder / RUNS / entry.name, limits_of(share)
        if entry.ideas:
            return [
                *self.program,
                "ideate",
                "--topic",
                str(self.folder / TOPICS / f"{entry.name}.md"),
                "-n",
                str(entry.ideas),
                "--out",
                str(self.folder / TOPICS / entry.name),
                *self._config(entry),
                *limits,
            ]
        limits += ["--set", f"until={UNTIL if self.keep and not entry.chosen else 'null'}"]
        if not is_run(run):
            idea = self.folder / IDEAS / f"{entry.name}.json"
            idea = idea if idea.is_file() else idea.with_suffix(".md")  # read by the run's model
            return [
                *self.program,
                "run",
                "--idea",
                str(idea),
                "--runs",
                str(run.parent),
                "--name",
                entry.name,
                *self._config(entry),
                "--set",
                f"campaign={self.folder}",
                *limits,
            ]
        if share.seconds is not None:  # a run counts all of its time, a share what is to come
            limits += ["--set", f"time_limit={read_state(run).active_seconds + share.seconds:.0f}"]
        return [*self.program, "resume", str(run), *limits]

    def _config(self, entry: Entry) -> list[str]:
        own = self.folder / IDEAS / f"{entry.name}.yaml"
        return ["--config", str(own if own.is_file() else self.folder / CONFIG)]

    def ended(self, entry: Entry, returned: int | None) -> RunEnded | IdeasFound:
        if entry.ideas:
            return self._ideas(entry, returned)
        run = self.folder / RUNS / entry.name
        if not is_run(run):
            return RunEnded(
                name=entry.name,
                code=returned if returned is not None and returned >= 0 else None,
                why=last_words(self.folder, entry.name),
            )
        try:
            state = read_state(run)
            subjects = spent_in(run)
        except RecordError as error:  # nobody knows what it took: all that it might
            return RunEnded(name=entry.name, why=str(error), spent=entry.share.caps if entry.share else {})
        code, why = (
            (None, "it was killed, or died") if state.ended is None else (state.ended.exit_code, state.ended.reason)
        )
        if code == 130 and returned == 2:  # refused before it was taken up
            code, why = 2, last_words(self.folder, entry.name)
        paused = code == 130 and state.phase == "tuning" and self.keep and not entry.chosen
        return RunEnded(
            name=entry.name,
            code=code,
            why=why,
            spent=spent_of(state, subjects),
            prospect=prospect_in(state, entry.name) if paused else None,
        )

    def _ideas(self, entry: Entry, returned: int | None) -> RunEnded | IdeasFound:
        folder = self.folder / TOPICS / entry.name
        try:
            spent = spent_of(fold(read_events(folder / IDEATION))) if (folder / IDEATION).exists() else Amounts()
        except RecordError:
            spent = entry.share.caps if entry.share else Amounts()
        if returned in (0, 3, None) and (folder / "ideas.json").is_file():
            ideas = [one for one in read_ideas(folder / "ideas.json") if isinstance(one, Idea)]
            taken = set(read_campaign(self.folder).entries)
            if len(ideas) >= entry.ideas or returned == 3:
                return IdeasFound(
                    name=entry.name,
                    spent=spent,
                    ideas=tuple(
                        (self._kept(entry, number, idea, taken), idea.title) for number, idea in enumerate(ideas, 1)
                    ),
                )
        return RunEnded(
            name=entry.name,
            code=returned if returned in (1, 2, 130) else None,
            spent=spent,
            why=last_words(self.folder, entry.name),
        )

    def _kept(self, entry: Entry, number: int, idea: Idea, taken: set[str]) -> str:
        """The name under which an idea of a topic lies from now on: none that another one has."""
        names = (slug(f"{entry.name[:50]}-{number}{more}") for more in ("", *(f"-{n}" for n in range(2, 10_000))))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        keep_idea(self.folder, name, idea)
        return name


def limits_of(share: Share) -> list[str]:
    """A share as options; the time of what is begun."""
    limits = [
        f"budget.{what}={int(cap) if what.endswith('tokens') else round(cap, 6)}" for what, cap in share.caps.items()
    ]
    limits += [f"time_limit={max(1.0, share.seconds):.0f}"] if share.seconds is not None else []
    return [word for limit in limits for word in ("--set", limit)]


def spent_of(state: RunState, subjects: Spending | None = None) -> Amounts:
    """All that a run took, and may have taken; `subjects`, as their exchanges say, which its events tell late."""
    spent, subjects = state.spent, subjects or Spending()
    told = sum(one.input_tokens + one.output_tokens for one in state.subjects)
    return amounts(
        {
            "usd": spent.usd,
            "tokens": float(spent.tokens),
            "gpu_hours": spent.gpu_seconds / 3600,
            "subject_usd": max(subjects.usd, sum(one.usd for one in state.subjects)),
            "subject_tokens": float(max(subjects.tokens, told)),
        }
    )


def prospect_in(state: RunState, name: str) -> Prospect:
    """What a run's preliminary stage says of the seeds and hours that its claim asks for."""
    assert state.started is not None
    return prospect_of(state, override(state.started.settings, state.overrides).search).model_copy(
        update={"name": name}
    )


def last_words(folder: Path, name: str) -> str:
    """The last line that a process printed."""
    with suppress(OSError):
        said = (folder / LOGS / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return said[-1].removeprefix("scientist: ")[:300] if said else "it said nothing"
    return "it never began"


# --- the loop -------------------------------------------------------------------------------------------------------


@dataclass
class Campaign:
    """Works on a campaign until nothing is left to do, or it is asked to stop."""

    folder: Path
    jobs: Jobs
    told: Told = lambda event: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    poll: float = POLL
    backoff: float = BACKOFF
    only: Collection[str] | None = None
    """What is begun; None: all that waits."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])
    _stopped: float | None = None
    _since: dict[str, float] = field(default_factory=dict[str, float])
    """When a job failed last."""

    def work(self, first: Sequence[CampaignEvent] = ()) -> CampaignState:
        """Work to the end; `first` is recorded before. Raises `WrongUse`, `RunLockedError`."""
        with hold(self.folder), self._signalled():
            (self.folder / STOP).unlink(missing_ok=True)
            self._log = CampaignLog(self.folder)
            if self.state.terms is None and not first:
                raise WrongUse(f"{self.folder} was cut off before it began: remove it, and begin again")
            self._append(TakenUp())
            for event in first:
                self._log.append(event)
            while self._step():
                time.sleep(self.poll)
            left = [one.name for one in self.state.entries.values() if one.standing in ("waiting", "interrupted")]
            why = "stopped" if self._stopped is not None else "the time limit is reached"
            self._append(CampaignEnded(why=f"{why}; {len(left)} left" if left else ""))
        return self.state

    @property
    def state(self) -> CampaignState:
        return self._log.state

    def _step(self) -> bool:
        """See what ended, begin what there is room for; whether anything is left to wait for."""
        self._take_queued()
        if (self.folder / STOP).exists():
            self._stop()
        for one in self.state.running:
            self._settle(one)
        if self._stopped is None:
            self._choose()
            while self._launch_next():
                pass
        elif time.monotonic() > self._stopped + GRACE:
            self._end_all()
        return bool(self.state.running) or (self._stopped is None and bool(self._waiting) and self._in_time)

    @property
    def _waiting(self) -> list[Entry]:
        return [one for one in self.state.waiting if self.only is None or one.name in self.only]

    @property
    def _in_time(self) -> bool:
        left = self.state.seconds_left(self._log.now())
        return left is None or left > 0

    def _take_queued(self) -> None:
        """Ideas that were added meanwhile, each a file of its own."""
        for file in sorted((self.folder / QUEUE).glob("*.json")):
            for one in ideas_in([file]):
                if one.name not in self.state.entries:
                    add(self._log, one)
                    self.told(Queued(name=one.name))
            file.unlink()

    def _choose(self) -> None:
        """Once every idea has its preliminary stage behind it, choose which go on."""
        terms, rest = self.state.terms, [one for one in self.state.entries.values() if one.standing == "to be chosen"]
        if terms is not None and terms.keep is not None and rest and not self.state.running and not self.state.waiting:
            self._append(
                chosen(
                    [one.end.prospect for one in rest if one.end is not None and one.end.prospect is not None],
                    terms.keep,
                )
            )

    def _launch_next(self) -> bool:
        """Begin the next job that there is room for; whether one was begun."""
        terms, now = self.state.terms, time.monotonic()
        ready = [
            one
            for one in self._waiting
            if now >= self._since.get(one.name, 0.0) + self.backoff * one.tries or not one.tries
        ]
        if terms is None or not ready or len(self.state.running) >= terms.parallel or not self._in_time:
            return False
        self._launch(ready[0], self.state.share_of(ready[0].name, self._log.now()))
        return True

    def _launch(self, one: Entry, share: Share) -> None:
        try:
            command = self.jobs.command(one, share)
        except RecordError as error:
            self._append(Refused(name=one.name, why=str(error)))
            return
        self._append(Launched(name=one.name, share=share))
        with self._lock_file(one.name) as lock, open(self.folder / LOGS / f"{one.name}.log", "ab") as output:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the child has it too, and keeps it
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
        file = os.open(self.folder / LOCKS / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    def _pid_of(self, name: str) -> int | None:
        """The process of a job that is under way, also of one that a process before this began; 0: not known."""
        with self._lock_file(name) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return parse_whole_number(os.pread(file, 20, 0).decode(errors="replace")) or 0
        return None

    def _settle(self, one: Entry) -> None:
        """Record the end of a job that has ended."""
        process = self._processes.get(one.name)
        if (process is not None and process.poll() is None) or (process is None and self._pid_of(one.name) is not None):
            return
        self._processes.pop(one.name, None)
        event = self.jobs.ended(one, process.returncode if process is not None else None)
        if isinstance(event, RunEnded):
            # neither what was asked to stop nor what went with the process before this has failed by itself
            asked = event.code in (None, 130) and (self._stopped is not None or process is None)
            event = event.model_copy(update={"asked": asked})
            self._since[one.name] = time.monotonic()
        self._append(event)

    # --- ending -------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Begin nothing more, and have every job end gently."""
        if self._stopped is None:
            self._stopped = time.monotonic()
            self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        for one in self.state.running:
            if (pid := self._pid_of(one.name)) is not None and pid > 0:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _end_all(self) -> None:
        self._signal(signal.SIGKILL)
        for process in self._processes.values():
            process.wait()

    @contextmanager
    def _signalled(self) -> Generator[None]:
        """While inside: the first signal stops gently, the second asks again, which runs take as: at once."""

        def asked(number: int, frame: object) -> None:
            if self._stopped is None:
                self._stop()
            else:
                self._signal(signal.SIGINT)

        names = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored: then the campaign goes on
            names.append(signal.SIGHUP)
        before = {number: signal.signal(number, asked) for number in names}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _append(self, event: CampaignEvent) -> None:
        self._log.append(event)
        self.told(event)
