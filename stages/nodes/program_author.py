"""Let an author with tools write the program of a node, or repair it (`search.author`).

The author works on a scratch copy of the parent's files and runs it through the executor of the study: the same
kernels, walls, data and limits as the cells of a node. A run is no measurement: its predictions are not scored for
anyone, and its folder is removed. Each step is a recorded call and each result of a tool an event (`models.author`),
so a resumed study repeats neither.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from labwright.models.author import Author, AuthorLimits
from labwright.models.client import ModelClient
from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.experiment_code import (
    CodeInputs,
    ProgramDescription,
    ProgramInputs,
    WrittenProgram,
    check_written_program,
)
from labwright.record.events.search_events import DecisionMade
from labwright.record.python_syntax import collect_reads
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, Node, format_node_id
from labwright.record.source_tree import ENTRY_FILE, SourceTreeError, check_source
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.job import ArtifactFile, Job
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.scratch_tree import (
    CommandFailed,
    RefusedCall,
    RunTool,
    ToolArguments,
    open_program_tree,
)
from labwright.search.stage_snapshot import StageSnapshot
from labwright.stages.measuring import measure_job
from labwright.stages.nodes.node_cells import apply_settings, is_cell_program, list_arms, required_cells
from labwright.stages.run_context import RunContext
from labwright.stages.settings import MAX_AUTHOR_STEPS

AUTHOR_LIMITS = AuthorLimits(steps=MAX_AUTHOR_STEPS, tokens=600_000, seconds=3600.0)


class _RunArguments(ToolArguments):
    file: str = ENTRY_FILE
    """Python file to run, relative to the top."""
    dataset: str = ""
    """Of experiment.py: the dataset of the cell."""
    arm: str = ""
    """Its arm."""
    level: str = ""
    """Its level."""
    seconds: float = Field(default=120.0, gt=0)
    """Time limit."""


def wants_author(context: RunContext, decided: DecisionMade, view: StageSnapshot) -> bool:
    """Return whether an author with tools makes the program of a decision, instead of one answer."""
    action = decided.action
    if context.search.author == "never" or not context.models.has_author or not isinstance(action, ExpandTree):
        return False
    parent = view.nodes.get(action.parent or "") if action.kind == "debug" else None
    return context.search.author == "always" or (parent is not None and view.needs_author(parent))


async def let_author_write(
    context: RunContext,
    decided: DecisionMade,
    client: ModelClient,
    view: StageSnapshot,
    inputs: CodeInputs,
    artifacts: Mapping[str, Mapping[str, ArtifactFile]],
) -> tuple[ProgramDescription, dict[str, str]]:
    """Return what an author made for a decision: its description and its files. Its runs may read the artifacts.

    Raises `ModelError`, `ModelOutputInvalid` if it handed in nothing that was accepted, `ExecutorError`, `TooLate`.
    """
    mirror = GitMirror(context.folder.root / "code" / "programs")
    before = inputs.parent.files if inputs.parent else {}
    start = mirror.import_files(before)
    node = context.state.nodes[format_node_id(decided.k)]
    arm = inputs.ablation.name if inputs.ablation is not None else ""
    runs = _ProgramRuns(context, node, view, mirror, arm, artifacts)
    asked = ProgramInputs(**dict(inputs), steps=AUTHOR_LIMITS.steps)

    async def check(answer: WrittenProgram, tree: str) -> str:
        try:
            made = await to_thread(runs.read_files, tree)
            check_written_program(inputs, answer, made, changed=made != before)
        except SourceTreeError as error:
            return str(error)
        return ""

    run = RunTool(
        _RunArguments,
        "Run experiment.py for one cell, or another Python file as a plain script, in the sandbox of the study, and "
        "return what it prints and its error. There is no network.",
        runs.run,
    )
    async with open_program_tree(mirror, start, run, name=f"author-{node.id}") as tools:
        made = await Author(client, tools, WrittenProgram, check, AUTHOR_LIMITS).work(asked)
    if made.result is None:
        raise ModelOutputInvalid(f"the author handed in no program that was accepted: {made.ended}")
    return made.result, runs.read_files(made.tree)


@dataclass(frozen=True)
class _ProgramRuns:
    """Runs of an author for one node."""

    context: RunContext
    node: Node
    view: StageSnapshot
    mirror: GitMirror
    arm: str
    """The arm that an ablation adds; empty for other nodes."""
    artifacts: Mapping[str, Mapping[str, ArtifactFile]]

    def read_files(self, tree: str) -> dict[str, str]:
        """Return the files of a tree; an empty one is removed, since no tool removes files."""
        return {path: text for path, text in self.mirror.read_texts(tree).items() if text.strip()}

    async def run(self, tree: str, given: _RunArguments) -> str:
        """Run a file of a tree and return what it printed."""
        context = self.context
        files = await to_thread(self.read_files, tree)
        cells = self._choose_cells(files, given)
        folder = self.mirror.folder.parent / "scratch" / f"run-{self.node.id}"
        job = Job(
            name=f"{self.node.id}/author",
            folder=folder,
            source=files,
            entry=given.file,
            seed=self.node.seed,
            artifacts=self.artifacts,
            timeout=min(given.seconds, context.node_seconds),
            datasets=tuple(use.name for use in context.plan.datasets),
            arms=tuple(dict.fromkeys((*list_arms(self.node, context.plan), *(cell.arm for cell in cells)))),
            may_skip_cells=False,
        )
        if cells:
            job = apply_settings(job, cells, context.state)
        try:  # a cap on GPU-hours counts the run at its limit
            outcome = await measure_job(context, job, decision=self.node.decision)
        finally:
            await to_thread(remove_tree, folder, ignore_errors=True)
        failure, printed = outcome.failure, [one.result.stdout_tail.rstrip() for one in outcome.folders.values()]
        if failure is None or (failure.kind == "no measurement" and given.file != ENTRY_FILE):
            return "\n".join(filter(None, (f"[it ran to its end, {outcome.seconds:.1f} s]", *printed)))
        words = (f"[{failure.kind}: {failure.message}]", *printed, failure.traceback)
        raise CommandFailed("\n".join(filter(None, words)))

    def _choose_cells(self, files: Mapping[str, str], given: _RunArguments) -> tuple[Cell, ...]:
        """Return the cell to run, after those whose artifacts it reads; none for a plain script.

        Raises `RefusedCall`.
        """
        try:
            check_source(files)
        except SourceTreeError as error:
            raise RefusedCall(str(error)) from None
        if given.file not in files or not given.file.endswith(".py"):
            raise RefusedCall(
                f"there is no Python file {given.file[:100]!r}: {', '.join(sorted(files)[:20]) or 'none'}"
            )
        if given.file != ENTRY_FILE or not is_cell_program(files):
            return ()
        plan, reads = self.context.plan, collect_reads(files[ENTRY_FILE]) or {}
        usual = self._find_usual_cell(reads)
        cell = usual.model_copy(
            update={name: value for name in ("dataset", "arm", "level") if (value := getattr(given, name))}
        )
        known = {
            "dataset": [use.name for use in plan.datasets],
            "arm": [*list_arms(self.node, plan), usual.arm],
            "level": plan.level_names,
        }
        for name, values in known.items():
            if (value := getattr(cell, name)) not in values and (name != "level" or value):
                raise RefusedCall(f"there is no {name} {value[:100]!r}: {', '.join(filter(None, values)) or 'none'}")
        if not plan.has_cell(cell.dataset, cell.arm, cell.level):
            raise RefusedCall(f"the plan leaves out {cell}")
        chain = [cell]
        while (read := reads.get(chain[0].arm)) and read not in {one.arm for one in chain}:
            chain.insert(0, cell.model_copy(update={"arm": read}))
        trials = self.node.trials
        return tuple(one.model_copy(update={"trial": trials.get(plan.find_tuned_arm(one.arm), 0)}) for one in chain)

    def _find_usual_cell(self, reads: Mapping[str, str]) -> Cell:
        """Return the first cell of the parent that failed, otherwise the first that the node must measure."""
        plan, node = self.context.plan, self.node
        parent = self.view.nodes.get(node.parent or "")
        lines = parent.attempts[-1].cells if parent is not None and parent.attempts and node.kind == "debug" else ()
        wanted = [
            *(line.cell for line in lines if line.outcome not in ("measured", "taken over")),
            *(() if self.arm else required_cells(node, self.view, plan=plan, reads=reads)),
        ]
        first = Cell(dataset=plan.datasets[0].name, arm=self.arm or plan.compared_arms[0], level=plan.level_names[0])
        return (wanted[0] if wanted else first).model_copy(update={"seed": node.seed})
