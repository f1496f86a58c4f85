"""Reproduce a repository's result: its command, the repairs it needs to run today, and its baseline.

Guarantees: a repair is reverted if the same failure remains; each repair is recorded with its reason; no
repair changes a metric, a split, a seed or a hyperparameter. There are at most `MAX_REPAIRS` repairs, and
`MAX_REPAIRS_PER_SIGNATURE` per failure.
Source: AblateCell, reproduction phase.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labwright.models.roles.repository import CommandChoice
from labwright.record.baseline_check import check_baseline, parse_expected
from labwright.record.events.repository_events import BaselineChecked, CommandFound, RepairTried
from labwright.record.schema.repository import (
    CommandRun,
    EnvironmentDeviation,
    ExpectedResult,
    RepositoryCommand,
    RepositoryRepair,
    SameSeed,
    format_command_line,
)
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.environment import add_import_folder, add_packages
from labwright.sandbox.repository.metric import parse_metric
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.repository.code_index import index_code
from labwright.stages.repository.command_discovery import (
    find_missing_script,
    find_script,
    find_seed_args,
    list_candidates,
)
from labwright.stages.repository.command_runs import CommandRunner, CommandSetup
from labwright.stages.repository.known_fixes import compute_signature, propose_fixes
from labwright.stages.repository.model_queries import ModelQueries

MAX_REPAIRS, MAX_REPAIRS_PER_SIGNATURE = 8, 3
"""Limits: repairs in total, and per failure."""
MAX_REPAIR_MINUTES = 30.0
BASELINE_SEEDS = (0, 1, 2)
"""Seeds of the baseline."""


@dataclass
class RepositoryReproduction:
    """Makes a repository's command run and checks its result."""

    runs: CommandRunner
    settings: SandboxSettings
    setup: CommandSetup
    expected: ExpectedResult | None = None
    seeds: tuple[int, ...] = BASELINE_SEEDS
    queries: ModelQueries | None = None
    """A model for failures without a known repair; None: no model is asked."""
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for event in self.runs.code_state.repairs:
            if event.kept:
                self.setup = self._apply_repair(event.repair)

    async def reproduce(self) -> tuple[CommandSetup, BaselineChecked]:
        """Return the working setup with its baseline; its verdict states whether the command works. Raises
        `ExecutorError`.
        """
        stopped = await self._repair()
        runs = [] if stopped else await self._run_baseline()
        known = self.runs.code_state.baseline
        if known is None:
            known = self._check_baseline(runs, stopped)
            self.runs.recorder.append(known)
        return self.setup, known

    async def _repair(self) -> str:
        """Repair until the command gives a value. Return the remaining failure; empty if there is none."""
        while True:
            run = await self.runs.run(self.setup, self.seeds[0], "repair")
            signature = compute_signature(run.failure, run.stdout_tail)
            if not signature:
                return ""
            message = run.failure.message if run.failure else ""
            description = message if signature in message else f"{signature} ({message})"
            repair, by = await self._find_next_repair(signature, run) if self._may_repair(signature) else (None, "rule")
            if repair is None:
                return description
            try:
                changed = self._apply_repair(repair)
            except RepositoryError as error:
                self._record_repair(signature, repair, by, self.setup, kept=False, then=str(error))
                continue
            again = await self.runs.run(changed, self.seeds[0], "repair")
            then = compute_signature(again.failure, again.stdout_tail)
            kept = then != signature
            self._record_repair(signature, repair, by, changed, kept=kept, then=then)
            if kept:
                self.setup = changed

    def _may_repair(self, signature: str) -> bool:
        tried = self.runs.code_state.repairs
        return (
            len(tried) < MAX_REPAIRS
            and sum(one.signature == signature for one in tried) < MAX_REPAIRS_PER_SIGNATURE
            and time.monotonic() - self._started < MAX_REPAIR_MINUTES * 60
        )

    async def _find_next_repair(
        self, signature: str, run: CommandRun
    ) -> tuple[RepositoryRepair | None, Literal["rule", "model"]]:
        """Return an untried repair and its source."""
        tried = [one.repair for one in self.runs.code_state.repairs]
        known = next((one for one in self._list_known_repairs(signature, run) if one not in tried), None)
        if known is not None or self.queries is None:
            return known, "rule"
        texts = self.runs.mirror.read_texts(self.setup.tree)
        found = await self.queries.propose_repair(run, self.setup, texts)
        return (found if found is None or keeps_program(found, self.runs.code_state.command, texts) else None), "model"

    def _list_known_repairs(self, signature: str, run: CommandRun) -> list[RepositoryRepair]:
        texts, command = self.runs.mirror.read_texts(self.setup.tree), self.setup.command
        found = list(
            propose_fixes(
                signature, texts, command, run.stdout_tail, self.setup.environment.command_environment.import_folders
            )
        )
        if signature.startswith(("path:", "argument:")):
            found += [
                RepositoryRepair(
                    kind="argv", argv=one.argv, reason=f"the command is outdated; {one.location} has this one"
                )
                for one in list_candidates(texts)
                if not one.wrong and one.argv != command.argv
            ]
        return [one for one in found if keeps_program(one, self.runs.code_state.command, texts)]

    def _apply_repair(self, repair: RepositoryRepair) -> CommandSetup:
        """Return the setup with a repair applied. Raises `RepositoryError` if that is impossible."""
        setup = self.setup
        if repair.kind == "pythonpath":
            return replace(setup, environment=add_import_folder(setup.environment, repair.env["PYTHONPATH"]))
        if repair.kind == "pins":
            made = add_packages(setup.environment, repair.pins, self.settings)
            if made.packages == setup.environment.packages:
                raise RepositoryError(f"{', '.join(repair.pins)} cannot be installed: {_format_last(made.deviations)}")
            return replace(setup, environment=made)
        if repair.kind == "argv":
            seeded = any("{seed}" in word for word in repair.argv)
            return replace(setup, command=setup.command.model_copy(update={"argv": repair.argv, "seeded": seeded}))
        if repair.kind == "env":
            return replace(setup, command=setup.command.model_copy(update={"env": setup.command.env | repair.env}))
        return replace(setup, tree=self.runs.mirror.apply_edits(setup.tree, repair.edits))

    def _record_repair(
        self,
        signature: str,
        repair: RepositoryRepair,
        by: Literal["rule", "model"],
        setup: CommandSetup,
        *,
        kept: bool,
        then: str,
    ) -> None:
        code = self.runs.code_state
        commit = ""
        if kept and repair.kind == "patch" and code.imported is not None:
            parent = next((one.commit for one in reversed(code.repairs) if one.commit), code.imported.commit)
            commit = self.runs.mirror.commit(setup.tree, parent, repair.reason)
        self.runs.recorder.append(
            RepairTried(signature=signature, repair=repair, by=by, tree=setup.tree, commit=commit, kept=kept, then=then)
        )

    # --- baseline -----------------------------------------------------------------------------------------------------

    async def _run_baseline(self) -> list[CommandRun]:
        """Run all seeds, then the first seed again with a trace."""
        made = await asyncio.gather(*(self.runs.run(self.setup, seed, "baseline") for seed in self.seeds))
        again = await self.runs.run(self.setup, self.seeds[0], "trace", repeat=1, traced=True)
        return [*made, again]

    def _check_baseline(self, runs: Sequence[CommandRun], stopped: str) -> BaselineChecked:
        values = [run.value for run in runs[:-1]]
        check = check_baseline(values, self.expected)
        same: SameSeed = "unseeded"
        why = stopped
        if runs and self.setup.command.seeded:
            same = "same digits" if runs[0].value == runs[-1].value else "differs"
            if len(values) > 1 and len(set(values)) == 1:
                why = (
                    f"{len(values)} seeds gave the same value, {values[0]!r}: the seed has no effect, or an effect "
                    "below the metric's resolution"
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


def keeps_program(repair: RepositoryRepair, found_command: CommandFound | None, texts: Mapping[str, str]) -> bool:
    """Return whether a repair keeps the program named by the user, if there is one."""
    return (
        repair.kind != "argv"
        or found_command is None
        or found_command.by != "person"
        or (find_script(repair.argv, texts) == find_script(found_command.command.argv, texts))
    )


def choose_command(
    texts: Mapping[str, str], given_command: RepositoryCommand | None, metric: str, *, direction: str, scale: float
) -> CommandFound | None:
    """Choose the command to run: the user's, or the first that the repository's code supports. None if a model must
    choose because no such command, or no metric, was found.
    """
    if not metric:
        return None
    if given_command is not None:
        if lacking := find_missing_script(given_command.argv, texts):
            there = ", ".join(sorted(path for path in texts if path.endswith(".py"))[:8])
            raise RepositoryError(
                f"--command {format_command_line(given_command.argv)!r}: there is no {lacking} in the "
                f"repository; it contains {there or 'no Python file'}"
            )
        words = () if given_command.seeded else find_seed_args(index_code(texts), given_command.argv)
        return CommandFound(
            command=given_command,
            by="person",
            why=(
                f"no seed is set, although the command accepts {' '.join(words)}: add it to compare runs by seed"
                if words
                else ""
            ),
        )
    found = list_candidates(texts)
    best = next((one for one in found if not one.wrong), None)
    if best is None:
        return None
    others = "; ".join(
        f"{one.location} has `{format_command_line(one.argv)}`: {one.wrong}" for one in found if one.wrong
    )
    return CommandFound(
        command=RepositoryCommand(
            argv=best.argv,
            env=dict(best.env),
            metric=metric,
            direction="min" if direction == "min" else "max",
            scale=scale,
            seeded=best.is_seeded,
        ),
        by="repository",
        why=f"from {best.location}" + (f"; {others}" if others else ""),
    )


def to_command_found(choice: CommandChoice | None, scale: float) -> CommandFound:
    """Convert a model's choice. Raises `RepositoryError` if there is none or it is invalid."""
    if choice is None:
        raise RepositoryError(
            "no command was found that produces the result: pass it with --command 'python train.py --seed {seed}'"
        )
    parse_metric(choice.metric)
    return CommandFound(
        command=RepositoryCommand(
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


def _format_last(deviations: Sequence[EnvironmentDeviation]) -> str:
    return deviations[-1].found if deviations else "unknown"
