"""Reproduce a repository's result: its command, the repairs it needs to run today, and its baseline.

Guarantees: a repair is reverted if the same failure remains; each repair is recorded with its reason; no
repair changes a metric, a split, a seed or a hyperparameter. There are at most `MAX_REPAIRS` repairs, and
`MAX_REPAIRS_PER_SIGNATURE` per failure.
Source: AblateCell, reproduction phase.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from labwright.models.roles.repository import CommandChoice
from labwright.record.baseline_check import check_baseline, parse_expected
from labwright.record.events.repository_events import BaselineChecked, CommandFound, RepairTried
from labwright.record.schema.nodes import CellRun
from labwright.record.schema.repository import (
    EnvironmentDeviation,
    RepositoryCommand,
    RepositoryRepair,
    SameSeed,
    format_command_line,
)
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.environment import add_import_folder, add_packages
from labwright.sandbox.repository.metric import parse_metric
from labwright.stages.repository.arm_runs import (
    BASELINE_ARM,
    ArmRuns,
    CommandSetup,
    RepositoryArm,
    gather_all,
    read_value,
)
from labwright.stages.repository.code_index import index_code
from labwright.stages.repository.command_discovery import find_script, find_seed_args, list_candidates
from labwright.stages.repository.known_fixes import compute_signature, propose_fixes
from labwright.stages.repository.model_queries import ModelQueries
from labwright.stages.run_context import RunContext

MAX_REPAIRS, MAX_REPAIRS_PER_SIGNATURE = 8, 3
"""Limits: repairs in total, and per failure."""
MAX_REPAIR_MINUTES = 30.0
BASELINE_SEEDS = (0, 1, 2)
"""Seeds of the baseline."""
UNMODIFIED = "the unmodified repository"


async def reproduce(context: RunContext) -> None:
    """Find the command of the repository, repair it if needed, and check its result."""
    await RepositoryReproduction(context, await _find_command(context)).reproduce()


async def _find_command(context: RunContext) -> CommandFound:
    """Return the command, from the record or newly determined."""
    if (known := context.state.repository.command) is not None:
        return known
    code, repository = context.code, context.repository
    assert repository is not None
    texts = repository.mirror.read_texts(code.tree)
    given = code.command_record if code.command else None
    found = choose_command(texts, given, code.metric, direction=code.direction, scale=code.scale)
    if found is None:
        asking = ModelQueries(context.models, context.recorder)
        found = to_command_found(await asking.choose_command(texts, given, code.metric), code.scale)
    found = found.model_copy(
        update={
            "expected": parse_expected(code.expect) if code.expect else found.expected,
            "command": found.command.model_copy(update={"env": found.command.env | code.env}),
        }
    )
    context.recorder.append(found)
    return found


@dataclass
class RepositoryReproduction:
    """Makes a repository's command run and checks its result. Kept repairs of the record are applied."""

    context: RunContext
    command: CommandFound
    seeds: tuple[int, ...] = BASELINE_SEEDS
    runs: ArmRuns = field(init=False)
    queries: ModelQueries = field(init=False)
    setup: CommandSetup = field(init=False)
    arm: RepositoryArm = field(init=False)
    """The repository as it runs today."""
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        context, repository = self.context, self.context.repository
        assert repository is not None and repository.environment is not None
        self.runs, self.queries = ArmRuns(context), ModelQueries(context.models, context.recorder)
        self.setup = CommandSetup(repository.code.tree, self.command.command, repository.environment)
        self.arm = self._build_arm(self.setup, UNMODIFIED)
        for event in context.state.repository.repairs:
            if event.kept:
                self.setup = self._apply_repair(event.repair)
                self.arm = self._build_arm(self.setup, event.repair.reason)
        self.runs.use_environment(self.setup.environment)

    def _build_arm(self, setup: CommandSetup, title: str, *, traced: bool = False) -> RepositoryArm:
        """Build an arm of the repository with a setup, a change of the present arm."""
        assert self.context.repository is not None
        base = replace(setup, tree=self.context.repository.code.tree)
        if title == UNMODIFIED:
            return self.runs.build_arm(BASELINE_ARM, title, base, stage="preliminary", kind="draft")
        return self.runs.build_arm(
            BASELINE_ARM,
            title,
            base,
            tree=setup.tree,
            stage="preliminary",
            kind="replicate" if traced else "debug",
            parent=self.runs.find_node(self.arm),
            traced=traced,
        )

    async def reproduce(self) -> None:
        """Repair the command until it gives a value, and record the baseline. Raises `ExecutorError`."""
        if self.context.state.repository.baseline is not None:
            return
        await self.runs.finish_interrupted()
        stopped = await self._repair()
        values = await self._run_baseline() if stopped == "" else []
        if self.context.state.limit_reason is None:
            self.context.recorder.append(self._check_baseline(values, stopped or ""))

    async def run_traced(self) -> CellRun | None:
        """Return the run of the first seed that records the functions that are called."""
        return await self.runs.run(self._build_arm(self.setup, "with a trace of its calls", traced=True), self.seeds[0])

    async def _repair(self) -> str | None:
        """Repair until the command gives a value. Return the remaining failure: empty if there is none, None if a limit
        of the study came first.
        """
        while True:
            if (run := await self.runs.run(self.arm, self.seeds[0])) is None:
                return None
            signature = compute_signature(run.failure, run.stdout_tail)
            if not signature:
                return self._explain_missing_value(run)
            message = run.failure.message if run.failure else ""
            description = message if signature in message else f"{signature} ({message})"
            repair, by = await self._find_next_repair(signature, run) if self._may_repair(signature) else (None, "rule")
            if repair is None:
                return description
            try:
                changed = self._apply_repair(repair)
                arm = self._build_arm(changed, repair.reason)
            except RepositoryError as error:
                self._record_repair(signature, repair, by, self.setup, kept=False, then=str(error))
                continue
            if (again := await self.runs.run(arm, self.seeds[0])) is None:
                return None
            then = compute_signature(again.failure, again.stdout_tail)
            kept = then != signature
            self._record_repair(signature, repair, by, changed, kept=kept, then=then)
            if kept:
                self.setup, self.arm = changed, arm

    def _explain_missing_value(self, run: CellRun) -> str:
        """Return why a run that did not fail has no value; empty if it has one."""
        if read_value(run, self.arm.metric) is not None:
            return ""
        available = ", ".join(sorted({one.name for one in run.measurements})) or "nothing"
        return f"{self.arm.metric} cannot be computed from these predictions; available: {available}"

    def _may_repair(self, signature: str) -> bool:
        tried = self.context.state.repository.repairs
        return (
            len(tried) < MAX_REPAIRS
            and sum(one.signature == signature for one in tried) < MAX_REPAIRS_PER_SIGNATURE
            and time.monotonic() - self._started < MAX_REPAIR_MINUTES * 60
        )

    async def _find_next_repair(
        self, signature: str, run: CellRun
    ) -> tuple[RepositoryRepair | None, Literal["rule", "model"]]:
        """Return an untried repair and its source."""
        tried = [one.repair for one in self.context.state.repository.repairs]
        known = next((one for one in self._list_known_repairs(signature, run) if one not in tried), None)
        if known is not None:
            return known, "rule"
        texts = self.runs.mirror.read_texts(self.setup.tree)
        found = await self.queries.propose_repair(run, self.setup, texts)
        return (
            found if found is None or keeps_program(found, self.context.state.repository.command, texts) else None
        ), "model"

    def _list_known_repairs(self, signature: str, run: CellRun) -> list[RepositoryRepair]:
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
        return [one for one in found if keeps_program(one, self.context.state.repository.command, texts)]

    def _apply_repair(self, repair: RepositoryRepair) -> CommandSetup:
        """Return the setup with a repair applied. Raises `RepositoryError` if that is impossible."""
        setup = self.setup
        if repair.kind == "pythonpath":
            return replace(setup, environment=add_import_folder(setup.environment, repair.env["PYTHONPATH"]))
        if repair.kind == "pins":
            made = add_packages(setup.environment, repair.pins, self.context.sandbox)
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
        code = self.context.state.repository
        commit = ""
        if kept and repair.kind == "patch" and code.imported is not None:
            parent = next((one.commit for one in reversed(code.repairs) if one.commit), code.imported.commit)
            commit = self.runs.mirror.commit(setup.tree, parent, repair.reason)
        self.context.recorder.append(
            RepairTried(signature=signature, repair=repair, by=by, tree=setup.tree, commit=commit, kept=kept, then=then)
        )

    # --- baseline -----------------------------------------------------------------------------------------------------

    async def _run_baseline(self) -> list[float | None]:
        """Return the values of all seeds, then that of the first seed with a trace."""
        runs = await gather_all([*(self.runs.run(self.arm, seed) for seed in self.seeds), self.run_traced()])
        return [read_value(run, self.arm.metric) for run in runs]

    def _check_baseline(self, values: Sequence[float | None], stopped: str) -> BaselineChecked:
        seeds, why = values[:-1], stopped
        same: SameSeed | None = "unseeded" if values else None
        check = check_baseline(seeds, self.command.expected)
        if values and self.setup.command.seeded:
            same = "same digits" if values[0] == values[-1] else "differs"
            if len(set(seeds)) == 1:
                why = (
                    f"{len(seeds)} seeds gave the same value, {seeds[0]!r}: the seed has no effect, or an effect "
                    "below the metric's resolution"
                )
        return BaselineChecked(
            tree=self.setup.tree,
            node=self.runs.find_node(self.arm),
            seeds=self.seeds[: len(seeds)],
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
