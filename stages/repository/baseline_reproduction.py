"""Reproduce a repository's result: its command, the repairs it needs to run today, and its baseline.

Guarantees: each repair is recorded with its reason, and none changes a metric, a split, a seed or a hyperparameter. An
author makes them, once in a study.
Source: AblateCell, reproduction phase.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from labwright.models.author import WorkStopped
from labwright.models.errors import CatalogueError
from labwright.models.prompt_filters import cut_line, flatten
from labwright.models.roles.experiment_code import CoderFact
from labwright.models.roles.repository import PreparedCommand, PrepareInputs
from labwright.record.baseline_check import check_baseline, parse_expected
from labwright.record.errors import UsageError
from labwright.record.events.repository_events import BaselineChecked, CommandFound, RepairMade
from labwright.record.events.run_events import HAND_IN
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import CellRun, Failure
from labwright.record.schema.repository import RepositoryCommand, SameSeed, format_command_line
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.environment import RepositoryEnvironment, add_packages
from labwright.sandbox.repository.metric import parse_metric
from labwright.stages.repository.arm_runs import (
    BASELINE_ARM,
    ArmRuns,
    CommandSetup,
    RepositoryArm,
    gather_all,
    read_value,
)
from labwright.stages.repository.authors import (
    find_preparation_faults,
    format_limits,
    format_machine,
    let_author_work,
    list_document_facts,
)
from labwright.stages.repository.patch_scope import find_script, index_code
from labwright.stages.repository.program_facts import find_seed_args, list_command_facts
from labwright.stages.run_context import RunContext, decision_number

BASELINE_SEEDS = (0, 1, 2)
"""Seeds of the baseline."""
MAX_TRIED_SEEDS = 4
"""Seeds after which a command without any difference in its result counts as unseeded."""
MAX_TAIL_CHARS = 4000
"""Maximum number of characters of a run's output that an author is shown."""
OR_IMPOSSIBLE = "If no change that is allowed helps, hand in the same command with the reason in `impossible`."
UNMODIFIED = "the unmodified repository"


async def reproduce(context: RunContext) -> None:
    """Find the command of the repository, repair it if needed, and check its result."""
    found = await _find_command(context)
    if isinstance(found, CommandFound):
        await RepositoryReproduction(context, found).reproduce()
    elif context.state.limit_reason is None:
        context.recorder.append(
            BaselineChecked(tree=context.studied.settings.tree, mean=None, spread=None, verdict="failed", why=found)
        )


async def _find_command(context: RunContext) -> CommandFound | str:
    """Return the command, from the record or newly determined, or why there is none.

    Raises `CatalogueError` if there is no author to find it.
    """
    if (known := context.state.repository.command) is not None:
        return known
    repository, code = context.studied, context.studied.settings
    given = code.command_record if code.command else None
    if given is not None and code.metric:
        texts = repository.mirror.read_texts(code.tree)
        words = () if given.seeded else find_seed_args(index_code(texts), given.argv)
        why = f"no seed is set, although the command accepts {' '.join(words)}: add it to compare runs by seed"
        found = CommandFound(command=given, expected=code.expected, by="person", why=why if words else "")
    elif not context.models.has_author:
        lacking = " and ".join(["--command"] * (given is None) + ["--metric"] * (not code.metric))
        raise CatalogueError(f"the offline model reads no documents: give {lacking}, or name a model with --model")
    else:
        setup = CommandSetup(code.tree, code.command_record, repository.environment)
        prepared = await _Preparation(context, setup, given, failed="").prepare()
        if isinstance(prepared, str):
            return prepared
        found = prepared.found
        if prepared.repair is not None:
            RepositoryReproduction(context, found).accept_repair("", prepared.repair)
    context.recorder.append(found)
    return found


@dataclass(frozen=True)
class _Prepared:
    """A command that gave a value, as an author handed it in, and the repairs that it needs."""

    found: CommandFound
    setup: CommandSetup
    repair: RepairMade | None
    """What it changes, all together; None: nothing."""


class _Preparation:
    """An author's work on the command of a repository, and the check of what it hands in: the program runs it.

    `command` is kept, except for what makes it run.
    """

    def __init__(
        self, context: RunContext, setup: CommandSetup, command: RepositoryCommand | None, *, failed: str
    ) -> None:
        self._context, self._setup, self._command, self._failed = context, setup, command, failed
        self._runs = ArmRuns(context)
        self._texts = self._runs.mirror.read_texts(setup.tree)
        self._accepted: _Prepared | None = None
        self._tried = self._advice = ""
        """The command that was run last with its metric, and what the user may do if it gave no value."""
        self._task = "repair" if failed else "prepare"
        self._environments: dict[tuple[str, ...], RepositoryEnvironment] = {(): setup.environment}

    async def prepare(self) -> _Prepared | str:
        """Return the prepared command, or why there is none. Raises `ModelError`, `ExecutorError`."""
        code, index = self._context.studied.settings, index_code(self._texts)
        facts = [*await list_document_facts(self._context), *list_command_facts(index, self._setup.command)]
        given = [f"--command {code.command}"] * bool(code.command)
        given += [f"--metric {self._setup.command.metric}"] * bool(code.metric)
        given += [f"--env {name}={value}" for name, value in code.env.items()]
        given += [f"--mount {name}=..." for name in code.mounts]
        machine = format_machine(self._context.sandbox, self._setup.environment, index)
        limits = f"{format_limits(self._context)}\n{machine}"
        facts.insert(0, CoderFact(title="What the user gave", text="\n".join(given) or "nothing"))
        if self._failed:
            command = format_command_line(self._setup.command.argv)
            facts.insert(0, CoderFact(title=f"`{command}` fails now", text=self._failed))
        inputs = PrepareInputs(known=tuple(facts[:10]), surroundings=limits)
        made = await let_author_work(
            self._context, self._task, self._setup, inputs, PreparedCommand, self._check, self._find_environment
        )
        if made.result is None:
            return f"{self._tried}{made.ended}{self._advice if self._tried else '; give --command and --metric'}"
        if self._accepted is None:  # a resumed study: the check is recorded, its value is not
            self._accepted = await asyncio.to_thread(self._build, made.result, made.tree)
        return self._accepted

    async def _check(self, answer: PreparedCommand, tree: str) -> str:
        """Return why a result is refused. Raises `WorkStopped` if the author says that nothing else is possible."""
        why = await self._find_fault(answer, tree)
        if why and answer.impossible:
            raise WorkStopped(f"{cut_line(answer.impossible, 500).rstrip('.')} ({why.partition(chr(10))[0]})")
        return why

    async def _find_fault(self, answer: PreparedCommand, tree: str) -> str:
        """Return why a result is refused: it changes what it may not, or gives no value."""
        self._tried = self._advice = ""
        try:
            made = await asyncio.to_thread(self._build, answer, tree)
        except (RepositoryError, UsageError) as error:
            return str(error)
        after = self._runs.mirror.read_texts(tree)
        changed = {path: text for path, text in after.items() if self._texts.get(path) != text}
        command = made.setup.command
        wrong = list(find_preparation_faults(self._command, command, self._texts, changed))
        lost = sorted(self._texts.keys() - after.keys())
        wrong += [f"{path} was removed: change files, but remove none" for path in lost]
        if (metric := self._setup.command.metric) and command.metric != metric:
            wrong.append(f"the metric is given: {metric}")
        code = self._context.studied.settings
        given = code.command_record
        if code.command and find_script(command.argv, after) != find_script(given.argv, after):
            wrong.append(f"the user gave the program {format_command_line(given.argv)}: keep it")
        if wrong:
            return "\n".join(wrong)
        study = RepositoryReproduction(self._context, made.found)
        arm = study.build_trial(made.setup, answer.reasons)
        self._tried = f"`{format_command_line(command.argv)}` with metric {command.metric}: "
        values = set[float]()
        for seed in range(MAX_TRIED_SEEDS if command.seeded else 1):
            if (run := await self._runs.run(arm, seed)) is None:
                raise WorkStopped(self._context.state.limit_reason or "the study stops")
            if (failure := run.failure) is not None:
                self._advice = "; continue with a longer --timeout and the same --out" * (failure.kind == "timeout")
                output = drop_overwritten(run.stdout_tail)[-MAX_TAIL_CHARS:]
                return f"seed {seed}: {failure.message}\n{output}\n{OR_IMPOSSIBLE}"
            if (value := read_value(run, arm.metric)) is None:
                return f"{command.metric} gave no value"
            values.add(value)
            if len(values) > 1:
                break
        if command.seeded and len(values) == 1:
            return (
                f"{MAX_TRIED_SEEDS} seeds gave the same value, {values.pop()!r}: make {{seed}} take effect; leave it "
                "out if nothing is random; if the metric is too coarse to show it, read a finer one of the result"
            )
        self._accepted = made
        return ""

    def _find_environment(self) -> RepositoryEnvironment:
        """Return the environment with the packages that the author handed in last, if they can be installed."""
        k = decision_number(self._context.recorder, RunTask(task=self._task))
        for one in reversed(self._context.state.calls.answers.values()):
            if one.key.decision == k and one.answer["tool"] == HAND_IN:
                with suppress(RepositoryError):
                    return self._install(PreparedCommand.model_validate(one.answer["arguments"]).pins)
        return self._setup.environment

    def _install(self, pins: tuple[str, ...]) -> RepositoryEnvironment:
        """Return the environment with these packages added. Raises `RepositoryError`."""
        if pins not in self._environments:
            self._environments[pins] = add_packages(self._setup.environment, pins, self._context.sandbox)
        return _check_pins(self._setup.environment, self._environments[pins], pins)

    def _build(self, answer: PreparedCommand, tree: str) -> _Prepared:
        """Return the command with its setup and repairs. Raises `RepositoryError`, `UsageError`."""
        code, before = self._context.studied.settings, self._setup
        command = RepositoryCommand(
            argv=answer.words,
            env=before.command.env | answer.env,
            metric=answer.metric,
            direction=before.command.direction if code.metric or self._failed else answer.direction,
        )
        parse_metric(command.metric)
        environment = self._install(answer.pins)
        reason, patch = flatten(answer.reasons), self._runs.mirror.build_diff(before.tree, tree)
        repair = RepairMade(reason=reason, command=command, pins=answer.pins, patch=patch, tree=tree)
        is_empty = not (answer.pins or patch or (self._failed and command != before.command))
        expected = code.expect or answer.expected
        found = CommandFound(
            command=command,
            expected=parse_expected(expected) if expected else None,
            by="person" if code.command else "model",
            why=reason,
        )
        setup = CommandSetup(tree, command, environment)
        return _Prepared(found, setup, None if is_empty else repair)


@dataclass
class RepositoryReproduction:
    """Makes a repository's command run and checks its result. The repair in the record is applied."""

    context: RunContext
    command: CommandFound
    runs: ArmRuns = field(init=False)
    setup: CommandSetup = field(init=False)
    arm: RepositoryArm = field(init=False)
    """The repository as it runs today."""

    def __post_init__(self) -> None:
        context, repository = self.context, self.context.studied
        self.runs = ArmRuns(context)
        self.setup = CommandSetup(repository.settings.tree, self.command.command, repository.environment)
        self.arm = self._build_arm(self.setup, UNMODIFIED)
        if (repair := context.state.repository.repair) is not None:
            self._apply_repair(repair)
        self.runs.use_environment(self.setup.environment)

    def _build_arm(self, setup: CommandSetup, title: str, *, traced: bool = False) -> RepositoryArm:
        """Build an arm of the repository with a setup, a change of the present arm."""
        base, title = replace(setup, tree=self.context.studied.settings.tree), cut_line(title)
        # an author may have prepared it before anything was run
        is_first = title == UNMODIFIED or not (traced or self.runs.list_nodes(self.arm))
        kind = "draft" if is_first else "replicate" if traced else "debug"
        parent = None if is_first else self.runs.find_node(self.arm)
        return self.runs.build_arm(
            *(BASELINE_ARM, title, base), tree=setup.tree, stage="preliminary", kind=kind, parent=parent, traced=traced
        )

    def build_trial(self, setup: CommandSetup, title: str) -> RepositoryArm:
        """Build the arm that tries a setup: the repository itself if nothing of it changes."""
        return self._build_arm(setup, UNMODIFIED if setup.tree == self.context.studied.settings.tree else title)

    def accept_repair(self, failure: str, repair: RepairMade) -> None:
        """Record a repair of an author, which was run, and use it."""
        if self.context.state.repository.repair is not None:
            return  # by a process that ended right after
        self._apply_repair(repair)
        original = self.context.studied.settings.commit
        commit = self.runs.mirror.commit(repair.tree, original, repair.reason) if repair.patch else ""
        self.context.recorder.append(repair.model_copy(update={"failure": failure, "commit": commit}))

    async def reproduce(self) -> None:
        """Repair the command until it gives a value, and record the baseline. Raises `ExecutorError`."""
        known = self.context.state.repository.baseline
        if known is not None and known.verdict != "failed":
            return
        await self.runs.finish_interrupted()
        stopped = await self._repair()
        values: list[float | None] = []
        if stopped == "":  # all seeds, then the first one with a trace
            runs = await gather_all([*(self.runs.run(self.arm, seed) for seed in BASELINE_SEEDS), self.run_traced()])
            values = [read_value(run, self.arm.metric) for run in runs]
        if self.context.state.limit_reason is None:
            self.context.recorder.append(self._check_baseline(values, stopped or ""))

    async def run_traced(self) -> CellRun | None:
        """Return the run of the first seed that records the functions that are called."""
        arm = self._build_arm(self.setup, "with a trace of its calls", traced=True)
        return await self.runs.run(arm, BASELINE_SEEDS[0])

    async def _repair(self) -> str | None:
        """Repair a command that fails. Return why it gives no value: empty if it gives one; None at a limit of the
        study.
        """
        while (run := await self.runs.run(self.arm, BASELINE_SEEDS[0])) is not None:
            if run.failure is None:
                return self._explain_missing_value(run)
            if why := await self._let_author_repair(run.failure, run.stdout_tail):
                return why
        return None

    def _explain_missing_value(self, run: CellRun) -> str:
        """Return why a run that did not fail has no value; empty if it has one."""
        if read_value(run, self.arm.metric) is not None:
            return ""
        available = ", ".join(sorted({one.name for one in run.measurements})) or "nothing"
        return f"{self.arm.metric} cannot be computed from these predictions; available: {available}"

    async def _let_author_repair(self, failure: Failure, output: str) -> str:
        """Let an author repair the command, once in a study. Return why it does not run then; empty if it does."""
        if not self.context.models.has_author or self.context.state.repository.repair:
            return failure.message
        failed = f"{failure.message}\n\n{drop_overwritten(output)[-2 * MAX_TAIL_CHARS :]}"
        prepared = await _Preparation(self.context, self.setup, self.setup.command, failed=failed).prepare()
        if isinstance(prepared, str):
            return prepared
        if prepared.repair is None:
            return failure.message
        self.accept_repair(failure.message, prepared.repair)
        return ""

    def _apply_repair(self, repair: RepairMade) -> None:
        """Use a repair. Raises `RepositoryError` if its packages cannot be installed."""
        before = self.setup.environment
        made = add_packages(before, repair.pins, self.context.sandbox) if repair.pins else before
        self.setup = CommandSetup(repair.tree, repair.command, _check_pins(before, made, repair.pins))
        self.arm = self._build_arm(self.setup, repair.reason)

    # --- baseline -----------------------------------------------------------------------------------------------------

    def _check_baseline(self, values: Sequence[float | None], stopped: str) -> BaselineChecked:
        seeds, why = values[:-1], stopped
        is_fixed = len(set(values)) == 1 and None not in values
        same: SameSeed | None = "does not vary" if is_fixed else "unseeded" if values else None
        check = check_baseline(seeds, self.command.expected)
        if values and self.setup.command.seeded:
            same = None if None in (values[0], values[-1]) else "same digits" if values[0] == values[-1] else "differs"
            if len(set(seeds)) == 1:
                why = (
                    f"{len(seeds)} seeds gave the same value, {seeds[0]!r}: the seed has no effect, or an effect "
                    "below the metric's resolution"
                )
        return BaselineChecked(
            tree=self.setup.tree,
            node=self.runs.find_node(self.arm),
            seeds=BASELINE_SEEDS[: len(seeds)],
            mean=check.mean,
            spread=check.spread,
            verdict="failed" if stopped else check.verdict,
            same_seed=same,
            why=why,
        )


def _check_pins(
    before: RepositoryEnvironment, made: RepositoryEnvironment, pins: Sequence[str]
) -> RepositoryEnvironment:
    """Return an environment with packages added. Raises `RepositoryError` if none could be installed."""
    if pins and made.facts.packages == before.facts.packages:
        raise RepositoryError("; ".join(f"{one.wanted}: {one.found}" for one in made.facts.deviations[-len(pins) :]))
    return made


def drop_overwritten(text: str) -> str:
    """Return output as a terminal shows it: without what a carriage return has overwritten, such as progress bars."""
    return re.sub(r"[^\n]*\r(?!\n|$)", "", text)
