"""One reproduction and ablation of a repository from its order to its report: folder, lock, log, executor.

Its log is `ablation.db`; it is no run of an idea. The same order given again goes on where it was left.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from labwright.agent.budget import check_priced, models_of
from labwright.agent.settings import Settings
from labwright.models.failover import open_backend
from labwright.record.errors import WrongUse
from labwright.record.events.repository import CodeTaken, EnvironmentBuilt
from labwright.record.expected import parse_expected
from labwright.record.fold.apply import fold
from labwright.record.fold.facts import CodeState
from labwright.record.fold.state import RunState
from labwright.record.lock import hold, is_unused
from labwright.record.log import EventLog, Listener
from labwright.record.network import on_network
from labwright.record.nouns.data import DatasetFacts
from labwright.record.nouns.repository import Command
from labwright.record.prompts import keep as keep_prompt
from labwright.record.reading import read_events
from labwright.sandbox.isolation.probe import describe_isolation
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.opening import open_executor
from labwright.sandbox.repository.command import check_ground
from labwright.sandbox.repository.environment import Environment, environment_for
from labwright.sandbox.repository.metric import parse_metric
from labwright.sandbox.repository.mirror import Mirror, Taken
from labwright.sandbox.repository.predictions import check_truth, read_truth, write_labels
from labwright.stages.repository.ablating import Ablation
from labwright.stages.repository.asking import Asking
from labwright.stages.repository.reporting import write_report
from labwright.stages.repository.reproducing import SEEDS, Reproduction, chosen, of_model
from labwright.stages.repository.runs import Runs, Setup

LOG = "ablation.db"
LARGE_GB = 2.0
"""A checkout above this is told: each run has one of its own, without its large files."""


@dataclass(frozen=True)
class Order:
    """What is to be done with which repository. `command` has {seed} where its seed goes."""

    repository: str
    command: tuple[str, ...] = ()
    metric: str = ""
    direction: str = "max"
    scale: float = 1.0
    truth: str = ""
    """A table of labels, where the metric is one of predictions."""
    expect: str = ""
    top: int = 5
    budget: int | None = None
    timeout: float = 3600.0
    python: str = ""
    mounts: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    resume: tuple[str, ...] = ()
    proxy: tuple[str, ...] = ()
    dirty: bool = False
    reproduce_only: bool = False
    accept_baseline: bool = False

    @property
    def terms(self) -> dict[str, object]:
        """As it is recorded, for the same order to be known again."""
        return json.loads(json.dumps(asdict(self)))


def ablate(order: Order, settings: Settings, folder: Path, *, listener: Listener) -> RunState:
    """Bring an order to its end in a folder. Returns the state of its log.

    Raises: `WrongUse`, `ExecutorError`, `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_priced(settings)
    if order.metric:
        parse_metric(order.metric)
    if order.expect:
        parse_expected(order.expect)
    if order.truth:
        check_truth(Path(order.truth), Path(order.repository), [place for _, place in order.mounts])
    if not folder.exists():
        Mirror(folder / "mirror").check(Path(order.repository), dirty=order.dirty)
    elif not (folder / LOG).exists() and not is_unused(folder):
        raise WrongUse(f"{folder} is not empty and holds no ablation: choose another --out")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if on_network(folder):
            raise WrongUse(f"{folder} lies on a network filesystem: give --out a folder on a local disk")
        with hold(folder), closing(EventLog(folder / LOG, listener=listener)) as log:
            asyncio.run(_Study(order, settings, log).work())
            write_report(log.state.code, folder)
            return log.state
    except WrongUse:
        if made and not _worked_on(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _worked_on(folder: Path) -> bool:
    """Whether a run was made or an answer paid for: that is gone on with, whatever ended it."""
    if not (folder / LOG).exists():
        return False
    state = fold(read_events(folder / LOG))
    return bool(state.code.runs or state.answers)


@dataclass
class _Study:
    order: Order
    settings: Settings
    log: EventLog

    @property
    def code(self) -> CodeState:
        return self.log.state.code

    async def work(self) -> None:
        folder = self.log.path.parent.absolute()
        if self.order.truth and not (folder / "labels").is_dir():
            truth = read_truth(Path(self.order.truth)).whole
            write_labels(
                truth,
                truth.facts(
                    DatasetFacts(
                        name="labels", source=self.order.truth, features=0, classes=0, sizes={}, fingerprint="", seed=0
                    )
                ),
                folder / "labels",
            )
        mirror = Mirror(folder / "mirror")
        kill_orphans(folder / "cache")
        taken = self._take(mirror)
        executor = open_executor(
            self.settings.search.num_workers,
            folder / "views",
            labels=folder / "labels",
            cache=folder / "cache",
            settings=self.settings.sandbox.model_copy(update={"pool": 0}),
        )
        try:
            environment = self._environment(mirror, taken)
            check_ground(environment.ground, executor.config)
            runs = Runs(
                self.log, executor, mirror, folder, self.order.timeout, self.settings.sandbox.device, self.order.resume
            )
            asking = Asking(models_of(self.settings, self.log, partial(keep_prompt, folder)), self.log)
            command = await self._command(mirror.texts(taken.tree), asking)
            await self._study(runs, Setup(taken.tree, command, environment), asking)
        finally:
            await executor.close()
            mirror.forget_checkouts()
            for left in ("work", "cache", "views"):
                shutil.rmtree(folder / left, ignore_errors=True)

    async def _study(self, runs: Runs, setup: Setup, asking: Asking) -> None:
        assert self.code.command is not None
        setup, baseline = await Reproduction(
            runs, self.settings.sandbox, setup, self.code.command.expected, asking=asking
        ).reproduce()
        accepted = baseline.verdict in ("reproduced", "unchecked") or (
            baseline.verdict == "differs" and self.order.accept_baseline
        )
        if accepted and not self.order.reproduce_only:
            proxy = setup.command.model_copy(update={"argv": self.order.proxy}) if self.order.proxy else None
            await Ablation(runs, setup, SEEDS, self.order.top, self.order.budget, proxy, asking).ablate()

    def _take(self, mirror: Mirror) -> CodeTaken:
        known = self.code.taken
        if known is None:
            taken: Taken = mirror.take(Path(self.order.repository), dirty=self.order.dirty)
            known = CodeTaken(
                repository=self.order.repository,
                commit=taken.commit,
                tree=taken.tree,
                snapshot=taken.snapshot,
                files=taken.files,
                bytes=taken.bytes,
                faults=(*taken.faults, *_large(taken)),
                settings=self.order.terms,
                version=version("labwright"),
                model=self.settings.models.called,
                isolation=describe_isolation(self.settings.sandbox),
            )
            self.log.append(known)
        elif known.settings != self.order.terms:
            raise WrongUse(f"{self.log.path.parent} holds another order: choose another --out")
        return known

    def _environment(self, mirror: Mirror, taken: CodeTaken) -> Environment:
        built = self.code.environment
        environment = environment_for(
            mirror.texts(taken.tree),
            self.settings.sandbox,
            python=self.order.python,
            mounts={name: Path(path) for name, path in self.order.mounts},
            known=built.packages if built is not None else {},
        )
        if self.code.environment is None:
            self.log.append(
                EnvironmentBuilt(
                    how=environment.how,
                    python=environment.version,
                    packages=dict(environment.packages),
                    folders=environment.ground.folders,
                    deviations=environment.deviations,
                    mounts=dict(environment.mounts),
                    device=self.settings.sandbox.device,
                )
            )
        return environment

    async def _command(self, texts: dict[str, str], asking: Asking) -> Command:
        if self.code.command is None:
            order = self.order
            given = (
                Command(
                    argv=order.command,
                    env=dict(order.env),
                    metric=order.metric,
                    direction="min" if order.direction == "min" else "max",
                    scale=order.scale,
                    seeded=any("{seed}" in word for word in order.command),
                )
                if order.command
                else None
            )
            found = chosen(texts, given, order.metric, direction=order.direction, scale=order.scale)
            if found is None:
                found = of_model(await asking.command(texts, given, order.metric), order.scale)
            expected = parse_expected(order.expect) if order.expect else found.expected
            self.log.append(
                found.model_copy(
                    update={
                        "expected": expected,
                        "command": found.command.model_copy(update={"env": found.command.env | dict(order.env)}),
                    }
                )
            )
        assert self.code.command is not None
        return self.code.command.command


def _large(taken: Taken) -> tuple[str, ...]:
    size = taken.bytes / 1e9
    return (f"the checkout has {size:.1f} GB: its large files are linked, not copied",) if size > LARGE_GB else ()
