"""Run arms of a repository study that has no data plan: the unmodified code, its repairs, and ablations.

One run of the command is one cell. The first run of an arm is the arm's node, and each further seed a replicate of it.
A node is decided and its source sealed before it starts; a run is found again by source and seed, so none is repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from labwright.models.errors import BudgetSpent
from labwright.record.events.search_events import CellsRequired, DecisionMade, NodeJudged, NodeProposed
from labwright.record.run_folder import hash_texts, seal_source, write_file
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, CellRun, Failure, Node, NodeKind, StageName, format_node_id
from labwright.record.schema.repository import RepositoryCommand
from labwright.record.source_tree import ArmCode, RepositoryProgram, ScriptResults, build_program
from labwright.sandbox.datasets import RepositoryDataset
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.repository.environment import RepositoryEnvironment
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.predictions import read_truth, write_labels
from labwright.search.scheduler import NodeKilled, list_all_results
from labwright.stages.measuring import TooLate
from labwright.stages.nodes.node_cells import (
    NodeCells,
    compute_cell_keys,
    execute_attempt,
    hash_arm_code,
    read_recorded_source,
)
from labwright.stages.run_context import RunContext, record_limit, record_time_limit, wait_to_start

T = TypeVar("T")
BASELINE_ARM = "baseline"
MAX_ARM_CHARS = 60


@dataclass(frozen=True)
class CommandSetup:
    """Everything that defines a run except its arm and seed: files, command and environment."""

    tree: str
    command: RepositoryCommand
    environment: RepositoryEnvironment


@dataclass(frozen=True)
class RepositoryArm:
    """A changed repository, or the unmodified one. `name` is the condition of its measurements."""

    name: str
    title: str
    source: dict[str, str]
    sha256: str
    environment: RepositoryEnvironment
    metric: str
    """Name of its metric."""
    parts: tuple[str, ...] = ()
    """The ablated parts."""
    stage: StageName = "ablation"
    kind: NodeKind = "ablate"
    """Kind of its first node."""
    parent: str | None = None
    """Node of the arm that it changes."""


async def gather_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all results, then raise the first exception, so that a run in progress is recorded before it."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return cast("list[T]", found)


def name_arm(parts: Iterable[str], way: int = 0) -> str:
    """Return the name of the arm without these parts, valid in file names and in keys; `way` counts its mutations."""
    name = f"without-{'-and-'.join(parts)}"
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
    if plain != name or len(plain) > MAX_ARM_CHARS:  # keep different names different
        plain = f"{plain[: MAX_ARM_CHARS - 7]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return f"{plain}-{way + 1}" if way else plain


@dataclass(frozen=True)
class ArmRuns:
    """Runs the arms of one repository."""

    context: RunContext

    @property
    def mirror(self) -> GitMirror:
        return self.context.studied.mirror

    @property
    def dataset(self) -> str:
        """The name of the repository's data."""
        return next(iter(self.context.sources))

    def build_arm(
        self,
        name: str,
        title: str,
        setup: CommandSetup,
        *,
        tree: str = "",
        words: Sequence[str] = (),
        parts: Sequence[str] = (),
        stage: StageName = "ablation",
        kind: NodeKind = "ablate",
        parent: str | None = None,
        traced: bool = False,
        results: ScriptResults | None = None,
    ) -> RepositoryArm:
        """Build an arm that adds words to the command and changes the setup's tree to `tree` (empty: no change).
        `results`: what its command measures, instead of the metric."""
        program = RepositoryProgram(
            commit=self.context.studied.settings.commit,
            tree=setup.tree,
            command=setup.command,
            name=setup.command.metric_name,
            environment=setup.environment.digest,
            traced=traced,
            results=results,
        )
        patch = self.mirror.build_diff(setup.tree, tree) if tree and tree != setup.tree else ""
        source = build_program((), program, {name: ArmCode(words=tuple(words), patch=patch)})
        return RepositoryArm(
            name, title, source, hash_texts(source), setup.environment, program.name, tuple(parts), stage, kind, parent
        )

    # --- what the record has ------------------------------------------------------------------------------------------

    def list_nodes(self, arm: RepositoryArm) -> list[Node]:
        """Return the nodes that run an arm, its own first; last, those that a shorter time limit ended."""
        found = [one for one in self.context.state.nodes.values() if one.source_sha256 == arm.sha256]
        return sorted(found, key=self._was_cut_short)

    def _was_cut_short(self, node: Node) -> bool:
        """Return whether a time limit ended a run that has more time now."""
        return any(
            one.failure is not None and one.failure.kind == "timeout" and (one.limit or 0) < self.context.node_seconds
            for one in node.attempts[-1:]
        )

    def find_node(self, arm: RepositoryArm) -> str:
        """Return the node of an arm that has run."""
        return self.list_nodes(arm)[0].id

    def find_run(self, arm: RepositoryArm, seed: int) -> CellRun | None:
        """Return the finished run of an arm at a seed; None if there is none."""
        node = self._find_node(arm, seed)
        runs = self.context.state.cells.list_node_runs(node.id) if node is not None and node.is_finished else ()
        return runs[-1] if runs else None

    def list_values(self, arm: RepositoryArm) -> dict[int, float | None]:
        """Return seed -> metric of every finished run of an arm; None for a run without a value."""
        ended = (one for one in self.list_nodes(arm) if one.is_finished and not self._was_cut_short(one))
        return {one.seed: read_value(one, arm.metric) for one in ended}

    def _find_node(self, arm: RepositoryArm, seed: int) -> Node | None:
        found = (one for one in self.list_nodes(arm) if one.seed == seed and not self._was_cut_short(one))
        return next(found, None)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(
        self, arm: RepositoryArm, seed: int, *, is_allowed: Callable[[], bool] = lambda: True
    ) -> CellRun | None:
        """Return the run of an arm at a seed, from the record or newly executed; None if a limit of the study or the
        user prevents it. A new run is only started if it `is_allowed`.

        Raises `ExecutorError`, `StopRequested`.
        """
        if self._find_node(arm, seed) is None and self.context.state.limit_reason is None:
            await wait_to_start(self.context)
        node = self._find_node(arm, seed)
        if node is None:
            if self.context.state.limit_reason is not None or not is_allowed():
                return None
            node = self._decide(arm, seed)
        self.use_environment(arm.environment)
        await self._finish(node.id)
        return self.find_run(arm, seed)

    async def finish_interrupted(self) -> None:
        """Complete the nodes that a stopped process left, except repairs, whose environment is not known here."""
        for node in [one for one in self.context.state.nodes.values() if not one.is_finished]:
            if not node.source_sha256:
                why = Failure(kind="other", message="the process ended before it was written")
                self.context.recorder.append(NodeJudged(node=node.id, status="cancelled", failure=why))
            elif node.kind != "debug":
                await self._finish(node.id)

    def use_environment(self, environment: RepositoryEnvironment) -> None:
        """Run all further commands in this environment."""
        executor = self.context.executor
        assert isinstance(executor, LocalExecutor) and executor.repository is not None
        if executor.repository.environment != environment:
            executor.repository = replace(executor.repository, built=environment)
            write_file(self.context.folder.environment, environment.text)

    def _decide(self, arm: RepositoryArm, seed: int) -> Node:
        """Decide on the run of an arm at a seed and seal its source, without waiting for anything."""
        state, recorder = self.context.state, self.context.recorder
        known = [one for one in self.list_nodes(arm) if not self._was_cut_short(one)]
        k = state.last_decision + 1
        kind = "replicate" if known else arm.kind
        parent = known[0].id if known else arm.parent
        ordinal = sum(one.kind == kind for one in state.list_stage_nodes(arm.stage))
        action = ExpandTree(stage=arm.stage, kind=kind, parent=parent, ordinal=ordinal, item=arm.title, seed=seed)
        node = format_node_id(k)
        sha256 = seal_source(self.context.folder.get_source_path(node), arm.source)
        recorder.append(DecisionMade(k=k, action=action, seen=list_all_results(state)))
        recorder.append(
            NodeProposed(
                node=node,
                decision=k,
                title=arm.title,
                plan="Run the command of the repository" + (f" {arm.title}." if arm.parts else "."),
                varies="+".join(arm.parts) or arm.title,
                arms=(arm.name,),
                source_sha256=sha256,
            )
        )
        return state.nodes[node]

    async def _finish(self, node: str) -> None:
        """Complete a node, or wait until it is completed. If a limit of the study prevents that, it stays unfinished
        until the study is resumed.
        """
        context = self.context
        while not context.state.nodes[node].is_finished and context.state.limit_reason is None:
            if pending := context.work_in_progress.list_pending((node,)):
                await pending[0].wait()
                continue
            with context.work_in_progress.acquire((node,)):
                try:
                    if node in context.state.killed_nodes:
                        raise NodeKilled(node)
                    await context.signals.run_unless_killed(node, self._measure(node))
                except TooLate:
                    record_time_limit(context)
                except BudgetSpent as error:
                    record_limit(context.recorder, str(error))
                except NodeKilled:
                    text = f"killed by the user: {context.state.killed_nodes[node].text}"
                    self._judge(node, Failure(kind="killed", message=text))

    def _judge(self, node: str, failure: Failure | None) -> None:
        status = "good" if failure is None else "cancelled" if failure.kind == "killed" else "buggy"
        reasons = (f"{failure.kind}: {failure.message}",) if failure else ()
        self.context.folder.delete_live_output(node)
        self.context.recorder.append(NodeJudged(node=node, status=status, reasons=reasons, failure=failure))

    async def _measure(self, name: str) -> None:
        """Measure the cell of a node, record the attempt, and judge it."""
        context, node = self.context, self.context.state.nodes[name]
        if not node.attempts:
            source = read_recorded_source(context, node)
            if name not in context.state.required_cells:
                cell = Cell(dataset=self.dataset, arm=node.arms[0], seed=node.seed)
                keys = compute_cell_keys((cell,), source, arms=node.arms, context=context)
                code = hash_arm_code(keys, source, arms=node.arms)
                required = CellsRequired(node=name, cells=tuple(keys), keys=tuple(keys.values()), code=code)
                context.recorder.append(required)
            cells = NodeCells(context, context.state.required_cells[name])
            await execute_attempt(context, node, cells, limit=context.node_seconds)
        self._judge(name, context.state.nodes[name].attempts[-1].failure)


def read_value(found: Node | CellRun | None, metric: str) -> float | None:
    """Return the metric of a run; None if it has none."""
    return next((one.value for one in found.measurements if one.name == metric), None) if found is not None else None


# The first step of an ablation or a question: record the repository and the environment of its commands.


async def prepare_repository(context: RunContext) -> None:
    """Record the imported repository and its environment, and store the labels of its predictions out of its reach."""
    repository, known = context.studied, context.state.repository
    code = repository.settings
    assert code.repository is not None
    if code.truth is not None:
        (data,), truth = context.sources.values(), read_truth(code.truth).without_splits
        assert isinstance(data, RepositoryDataset)
        write_labels(truth, truth.add_facts(data.build_facts(seed=0)), context.folder.labels)
    if known.imported is None:
        context.recorder.append(repository.mirror.describe_import(code.repository, code.commit, code.tree))
    if known.environment is None:
        context.recorder.append(repository.environment.facts)
