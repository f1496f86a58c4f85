"""A repository's result made again: its command, the repairs that it takes to run today, and its baseline.

Kept: a repair that leaves what stopped the program is taken back; each is recorded with its reason; none changes a
metric, a split, a seed or a hyperparameter. At most `MOST` repairs, `EACH` for one failure.

Source: AblateCell, its reproduction phase.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labwright.models.roles.repository import CommandChoice
from labwright.record.events.repository import BaselineChecked, CommandFound, Repaired
from labwright.record.expected import check_baseline, parse_expected
from labwright.record.nouns.repository import Command, CommandRun, Deviation, Expected, Repair, SameSeed, written
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.environment import importing_from, with_packages
from labwright.sandbox.repository.metric import parse_metric
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.repository.asking import Asking
from labwright.stages.repository.code import code_in
from labwright.stages.repository.commands import candidates, missing_script, script_of, seed_words
from labwright.stages.repository.mends import mends, signature_of
from labwright.stages.repository.runs import Runs, Setup

MOST, EACH = 8, 3
"""Repairs in all, and for one failure."""
MINUTES = 30.0
SEEDS = (0, 1, 2)
"""Of the baseline."""


@dataclass
class Reproduction:
    """Brings a repository's command to run and checks what it gives."""

    runs: Runs
    settings: SandboxSettings
    setup: Setup
    expected: Expected | None = None
    seeds: tuple[int, ...] = SEEDS
    asking: Asking | None = None
    """A model, for what no known repair mended; None: nobody is asked."""
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for event in self.runs.code.repairs:
            if event.kept:
                self.setup = self._with(event.repair)

    async def reproduce(self) -> tuple[Setup, BaselineChecked]:
        """The setup that works, with its baseline; the verdict says whether it does. Raises `ExecutorError`."""
        stopped = await self._mend()
        runs = [] if stopped else await self._baseline()
        known = self.runs.code.baseline
        if known is None:
            known = self._checked(runs, stopped)
            self.runs.recorder.append(known)
        return self.setup, known

    async def _mend(self) -> str:
        """Repair until the command gives a value; what stops it still, empty where nothing does."""
        while True:
            run = await self.runs.make(self.setup, self.seeds[0], "repair")
            signature = signature_of(run.failure, run.stdout_tail)
            if not signature:
                return ""
            told = f"{signature} ({run.failure.message if run.failure else ''})"
            repair, by = await self._next(signature, run) if self._within(signature) else (None, "rule")
            if repair is None:
                return told
            try:
                changed = self._with(repair)
            except RepositoryError as error:
                self._note(signature, repair, by, self.setup, kept=False, then=str(error))
                continue
            again = await self.runs.make(changed, self.seeds[0], "repair")
            then = signature_of(again.failure, again.stdout_tail)
            kept = then != signature
            self._note(signature, repair, by, changed, kept=kept, then=then)
            if kept:
                self.setup = changed

    def _within(self, signature: str) -> bool:
        tried = self.runs.code.repairs
        return (
            len(tried) < MOST
            and sum(one.signature == signature for one in tried) < EACH
            and time.monotonic() - self._began < MINUTES * 60
        )

    async def _next(self, signature: str, run: CommandRun) -> tuple[Repair | None, Literal["rule", "model"]]:
        """A repair that was not tried, and who proposes it."""
        tried = [one.repair for one in self.runs.code.repairs]
        known = next((one for one in self._known(signature, run) if one not in tried), None)
        if known is not None or self.asking is None:
            return known, "rule"
        texts = self.runs.mirror.texts(self.setup.tree)
        found = await self.asking.repair(signature, run, self.setup, texts)
        return (found if found is None or keeps_program(found, self.runs.code.command, texts) else None), "model"

    def _known(self, signature: str, run: CommandRun) -> list[Repair]:
        texts, command = self.runs.mirror.texts(self.setup.tree), self.setup.command
        found = list(mends(signature, texts, command, run.stdout_tail, self.setup.environment.ground.folders))
        if signature.startswith(("path:", "argument:")):
            found += [
                Repair(kind="argv", argv=one.argv, reason=f"the command is outdated; {one.where} offers this one")
                for one in candidates(texts)
                if not one.wrong and one.argv != command.argv
            ]
        return [one for one in found if keeps_program(one, self.runs.code.command, texts)]

    def _with(self, repair: Repair) -> Setup:
        """The setup with a repair. Raises `RepositoryError` where it cannot be made."""
        setup = self.setup
        if repair.kind == "pythonpath":
            return replace(setup, environment=importing_from(setup.environment, repair.env["PYTHONPATH"]))
        if repair.kind == "pins":
            made = with_packages(setup.environment, repair.pins, self.settings)
            if made.packages == setup.environment.packages:
                raise RepositoryError(f"{', '.join(repair.pins)} cannot be had: {_last(made.deviations)}")
            return replace(setup, environment=made)
        if repair.kind == "argv":
            seeded = any("{seed}" in word for word in repair.argv)
            return replace(setup, command=setup.command.model_copy(update={"argv": repair.argv, "seeded": seeded}))
        if repair.kind == "env":
            return replace(setup, command=setup.command.model_copy(update={"env": setup.command.env | repair.env}))
        return replace(setup, tree=self.runs.mirror.edited(setup.tree, repair.edits))

    def _note(
        self, signature: str, repair: Repair, by: Literal["rule", "model"], setup: Setup, *, kept: bool, then: str
    ) -> None:
        code = self.runs.code
        commit = ""
        if kept and repair.kind == "patch" and code.taken is not None:
            parent = next((one.commit for one in reversed(code.repairs) if one.commit), code.taken.commit)
            commit = self.runs.mirror.commit(setup.tree, parent, repair.reason)
        self.runs.recorder.append(
            Repaired(signature=signature, repair=repair, by=by, tree=setup.tree, commit=commit, kept=kept, then=then)
        )

    # --- the baseline -------------------------------------------------------------------------------------------------

    async def _baseline(self) -> list[CommandRun]:
        """The runs over all seeds, then the first seed again, traced."""
        made = await asyncio.gather(*(self.runs.make(self.setup, seed, "baseline") for seed in self.seeds))
        again = await self.runs.make(self.setup, self.seeds[0], "trace", repeat=1, traced=True)
        return [*made, again]

    def _checked(self, runs: Sequence[CommandRun], stopped: str) -> BaselineChecked:
        values = [run.value for run in runs[:-1]]
        check = check_baseline(values, self.expected)
        same: SameSeed = "unseeded"
        why = stopped
        if runs and self.setup.command.seeded:
            same = "same digits" if runs[0].value == runs[-1].value else "differs"
            if len(values) > 1 and len(set(values)) == 1:
                why = (
                    f"{len(values)} seeds gave the same value, {values[0]!r}: the seed changes nothing, or less "
                    "than the metric shows"
                )
        return BaselineChecked(
            tree=self.setup.tree,
            runs=tuple(run.id for run in runs),
            mean=check.mean,
            spread=check.spread,
            verdict="failed" if stopped else check.verdict,
            same_seed=same,
            why=why,
        )


def keeps_program(repair: Repair, found: CommandFound | None, texts: Mapping[str, str]) -> bool:
    """Whether a repair runs the program that a person named, where one did."""
    return (
        repair.kind != "argv"
        or found is None
        or found.by != "person"
        or (script_of(repair.argv, texts) == script_of(found.command.argv, texts))
    )


def chosen(
    texts: Mapping[str, str], given: Command | None, metric: str, *, direction: str, scale: float
) -> CommandFound | None:
    """The command that is run: the person's, or the first that the repository bears out; None where a reader is needed,
    since there is none or no metric."""
    if not metric:
        return None
    if given is not None:
        if lacking := missing_script(given.argv, texts):
            there = ", ".join(sorted(path for path in texts if path.endswith(".py"))[:8])
            raise RepositoryError(
                f"--command {written(given.argv)!r}: there is no {lacking} in the repository; it has "
                f"{there or 'no Python file'}"
            )
        words = () if given.seeded else seed_words(code_in(texts), given.argv)
        return CommandFound(
            command=given,
            by="person",
            why=(
                f"it is given no seed, though it takes {' '.join(words)}: add that to compare runs of one seed"
                if words
                else ""
            ),
        )
    found = candidates(texts)
    best = next((one for one in found if not one.wrong), None)
    if best is None:
        return None
    others = "; ".join(f"{one.where} has `{written(one.argv)}`: {one.wrong}" for one in found if one.wrong)
    return CommandFound(
        command=Command(
            argv=best.argv,
            env=dict(best.env),
            metric=metric,
            direction="min" if direction == "min" else "max",
            scale=scale,
            seeded=best.seeded,
        ),
        by="repository",
        why=f"from {best.where}" + (f"; {others}" if others else ""),
    )


def of_model(choice: CommandChoice | None, scale: float) -> CommandFound:
    """What a reader found. Raises `RepositoryError` where that is nothing, or cannot be read."""
    if choice is None:
        raise RepositoryError(
            "no command was found that makes the result: give it, --command 'python train.py --seed {seed}'"
        )
    parse_metric(choice.metric)
    return CommandFound(
        command=Command(
            argv=choice.words,
            metric=choice.metric,
            direction=choice.direction,
            scale=scale,
            seeded=any("{seed}" in word for word in choice.words),
        ),
        expected=parse_expected(choice.expected) if choice.expected else None,
        by="model",
        why=choice.why,
    )


def _last(deviations: Sequence[Deviation]) -> str:
    return deviations[-1].found if deviations else "unknown"
