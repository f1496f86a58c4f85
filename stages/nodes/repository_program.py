"""Programs of a repository study: an arm is defined by command-line words of the plan, or by a patch from a model.

Also a node whose code the user wrote.
"""

from __future__ import annotations

import ast
import os
from asyncio import to_thread
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.roles.experiment_code import Program
from labwright.record.baseline_check import check_baseline
from labwright.record.errors import UsageError, UserError
from labwright.record.events import Event
from labwright.record.events.repository_events import BaselineChecked
from labwright.record.events.search_events import DecisionMade, NodeProposed
from labwright.record.python_syntax import parse_python
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema import Scalar
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import STAGES, Cell, format_node_id
from labwright.record.source_tree import (
    ENTRY_FILE,
    MAX_FILE_BYTES,
    MAX_FILES,
    PLOTS_FILE,
    RepositoryProgram,
    SourceTreeError,
    build_program,
    check_source,
    parse_arm_code,
    read_constants,
)
from labwright.record.untrusted_files import BadFile, read_file
from labwright.sandbox.datasets import materialise
from labwright.sandbox.job import CellTask, Job, JobOutcome, measure_all
from labwright.sandbox.metrics import METRICS
from labwright.search.policy import NODE_KIND_BY_STAGE
from labwright.search.scheduler import list_all_results
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot
from labwright.stages.prompt_inputs import build_node_brief
from labwright.stages.repository.paper_study import NothingLeftError, has_only_word_arms, write_patched_program
from labwright.stages.repository.patch_scope import index_code, list_reached_files
from labwright.stages.run_context import RunContext

PLOT_SCRIPT_PATH = Path(__file__).parent / "repository_plots.txt"
MAX_QUICK_SECONDS = 60.0
"""Maximum seconds of a repository run for which it is repeated with more seeds before planning."""


class BaselineError(UserError):
    """Raised when the unmodified repository does not give the expected result. Only the user can resolve this."""


def build_plan_code(code: RepositoryProgram, plan: DataPlan) -> RepositoryProgram:
    """Return the program that every cell of the plan's study runs."""
    levels = {one.name: one.words for one in plan.all_levels}
    words = {
        one.name: tuple(word for name in one.parts or (one.name,) for word in levels.get(name, ()))
        for one in plan.levels
    }
    return code.model_copy(
        update={
            "name": plan.primary_metric.name,
            "levels": {name: each for name, each in words.items() if each},
            "dimensions": {one.name: one.word for one in plan.space if one.word},
        }
    )


async def build_repository_program(
    context: RunContext, decided: DecisionMade, client: ModelClient, view: StageSnapshot
) -> tuple[Program, dict[str, str], tuple[str, ...]]:
    """Build the program that measures the plan's arms: its description, its files, and the arms outside the plan.

    Raises: `NothingLeftError`, `ModelError`.
    """
    assert isinstance(decided.action, ExpandTree)
    action, code = decided.action, build_plan_code(context.studied.program, context.plan)
    plots = {PLOTS_FILE: read_plot_script()}
    if not has_only_word_arms(context.plan, main=action.stage != "ablation"):
        program, files, added = await write_patched_program(context, decided, client, code)
        return program, files | plots, added
    if nothing := explain_nothing_new(view, action, context.plan):
        raise NothingLeftError(nothing)
    parts = [arm.name for arm in context.plan.arms if (arm.role == "ablation") == (action.stage == "ablation")]
    program = Program(
        title="the repository's command for each arm",
        varies=", ".join(parts),
        plan="Every arm runs the same command in the repository at its commit, with the arguments that the data "
        "plan gives for it; the metric is read from the output of the repository.",
    )
    return program, build_program(context.plan.arms, code) | plots, ()


def read_declared_values(context: RunContext, files: Mapping[str, str], arms: Iterable[str]) -> dict[str, Scalar]:
    """Return the constants and numeric defaults that a repository's code declares alike for these arms, in the files
    that the command reaches; calls git."""
    code, mirror = context.studied.program, context.studied.mirror
    trees = {mirror.apply_patch(code.tree, parse_arm_code(files, arm).patch) for arm in arms} or {code.tree}
    found: list[dict[str, Scalar]] = []
    for texts in map(mirror.read_texts, sorted(trees)):
        reached = list_reached_files(index_code(texts), code.command.argv)
        found.append(read_constants({path: texts[path] for path in reached}, defaults=True))
    return {name: value for name, value in found[0].items() if all(one.get(name) == value for one in found)}


def read_plot_script() -> str:
    """Return the script that plots the values of the cells, for one node or several replicates."""
    return PLOT_SCRIPT_PATH.read_text(encoding="utf-8")


def explain_nothing_new(view: StageSnapshot, action: ExpandTree, plan: DataPlan) -> str:
    """Return why a node would measure nothing new; empty if it would."""
    if action.stage == "ablation" or action.kind == "ablate":
        return "" if any(arm.role == "ablation" for arm in plan.arms) else "the plan has no ablation arm"
    known = [one.id for one in view.nodes.values() if one.source_sha256 and one.kind in ("draft", "improve")]
    return f"{known[0]} already measures all arms of the plan" if known and action.kind != "debug" else ""


async def check_repository(context: RunContext, seed: int) -> None:
    """Run the unmodified repository once; if it is fast and no plan exists, run two more seeds to show the spread."""
    plan, code, level = context.state.search.data_plan, context.studied.program, ""
    if plan is not None:
        baseline, code = next(arm for arm in plan.arms if arm.role == "baseline"), build_plan_code(code, plan)
        level = next((one for one in plan.level_names if plan.has_cell(plan.datasets[0].name, baseline.name, one)), "")
    data, name = next(iter(context.sources)), code.name or code.command.metric_name
    await to_thread(
        materialise, data, views=context.folder.views, labels=context.folder.labels, seed=seed, sources=context.sources
    )
    code = code.model_copy(update={"name": name})
    cell = Cell(dataset=data, arm="baseline", level=level, seed=seed)
    outcome = await _run_unmodified(context, code, cell)
    values = _read_metric_values(outcome, code)
    if not values:
        lines = "; ".join(line.why for line in outcome.cells if line.why)
        why = (outcome.failure.message if outcome.failure is not None else lines).strip() or "no error was reported"
        raise BaselineError(f"the unmodified repository produced no value of {name}: {why}")
    if plan is None and code.command.seeded and outcome.seconds <= MAX_QUICK_SECONDS:
        for more in (seed + 1, seed + 2):
            again = await _run_unmodified(context, code, cell.model_copy(update={"seed": more}))
            values += _read_metric_values(again, code)
    expected = context.studied.settings.expected
    check = check_baseline(values, expected)
    context.recorder.append(
        BaselineChecked(
            tree=code.tree, mean=check.mean, spread=check.spread, verdict=check.verdict, seconds=outcome.seconds
        )
    )
    if check.verdict == "differs" and expected is not None:
        raise BaselineError(
            f"the unmodified repository gives {check.mean:.6g} over {len(values)} seed{'s' * (len(values) > 1)}, but "
            f"{expected.value:g} within {expected.tolerance:g} is expected: find the cause with scientist ablate "
            "--reproduce-only, or change --expect"
        )


async def _run_unmodified(context: RunContext, code: RepositoryProgram, cell: Cell) -> JobOutcome:
    return await measure_all(
        context.executor,
        Job(
            name="the unmodified repository",
            folder=context.folder.root / "probes" / f"baseline-{cell.seed}",
            cells={cell: CellTask()},
            source=build_program((), code),
            timeout=context.node_seconds,
            may_skip_cells=False,
        ),
    )


def _read_metric_values(outcome: JobOutcome, code: RepositoryProgram) -> list[float]:
    """Return the value of the metric; without a name, of the first built-in metric with the command's direction."""
    better = code.command.direction == "max"
    return [
        one.value
        for one in outcome.measurements
        if one.name == code.name
        or (not code.name and one.name in METRICS and METRICS[one.name].higher_is_better == better)
    ][:1]


# A node whose code the user wrote: read from a folder and recorded as the first choice of a branch. The code is
# executed, scored, plotted, reviewed and checked for honesty like that of a model; only code that could not run at
# all is rejected here. The decision records that the user has seen every result so far.

MAX_TITLE_CHARS = 80


class UserCodeError(UsageError):
    """Raised when a folder of code cannot become a node. The message says how to fix it."""


@dataclass(frozen=True)
class UserProgram:
    """A program submitted by the user: its source tree and its plan, empty if the user gave none."""

    author: str
    files: Mapping[str, str]
    plan: str = ""

    @property
    def title(self) -> str:
        """The first line of the plan, cut at a word boundary."""
        lines = [line.strip("# \t") for line in self.plan.splitlines()]
        first = " ".join(next((line for line in lines if line), f"written by {self.author}").split())
        return first if len(first) <= MAX_TITLE_CHARS else first[:MAX_TITLE_CHARS].rsplit(" ", 1)[0]


def read_user_program(folder: Path, *, author: str, note: str = "") -> UserProgram:
    """Read the program in a folder: a source tree with an experiment.py; the note is its plan. Raises
    `UserCodeError`.
    """
    if not folder.is_dir():
        raise UserCodeError(f"--code {folder} is not a folder: give one that contains {ENTRY_FILE}")
    files: dict[str, str] = {}
    try:
        for path in _list_files(folder):
            files[path] = read_file(folder, path, MAX_FILE_BYTES).decode("utf-8-sig")
        check_source(files)
    except UnicodeDecodeError:
        raise UserCodeError(
            f"--code {folder} has a file that is not UTF-8, after {', '.join(files) or 'none'}"
        ) from None
    except (BadFile, OSError, SourceTreeError) as error:
        raise UserCodeError(f"--code {folder}: {str(error).splitlines()[0]}") from None
    if ENTRY_FILE not in files:
        raise UserCodeError(f"--code {folder} contains no {ENTRY_FILE}, which is the program that runs: add it")
    for name, text in files.items():
        if name.endswith(".py") and (fault := _find_fault(text)):
            raise UserCodeError(f"{folder / name} {fault}")
    return UserProgram(author, files, note.strip())


def _list_files(folder: Path) -> list[str]:
    """List every file below a folder except hidden and compiled ones. Raises `UserCodeError` if there are too many."""
    files: list[str] = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]  # rejected together with the files
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        shown = (name for name in sorted((*names, *links)) if not name.startswith("."))
        files += [Path(place, name).relative_to(folder).as_posix() for name in shown]
        if len(files) > MAX_FILES:
            raise UserCodeError(
                f"--code {folder} has more than {MAX_FILES} files: give a folder with only the experiment"
            )
    return files


def build_first_choice(state: RunState, point: str, program: UserProgram, folder: RunFolder) -> tuple[Event, ...]:
    """Return the events that make the user's node the first choice at a point; its source is sealed in `folder`.

    Raises: `UserCodeError` if nothing can be built on the point.
    """
    assert state.started is not None and state.search.stage is not None
    decision_id, seen = state.last_decision + 1, list_all_results(state)
    view = build_snapshot(state, state.search.stage, seen)
    parent = view.root if point in STAGES else state.nodes[point]
    if parent is not None and parent.kind in ("replicate", "aggregate", "rung"):
        raise UserCodeError(
            f"{parent.id} is a {parent.kind}, and nothing builds on it: branch from its parent, --from {parent.parent}"
        )
    kind = NODE_KIND_BY_STAGE[state.search.stage]
    if point not in STAGES and parent is not None and parent.status != "good":
        kind = "debug"
    elif point not in STAGES and state.search.stage == "preliminary":  # the prototype already works
        kind = "improve"
    files = dict(program.files)
    if not files.get(PLOTS_FILE) and parent is not None and (plots := build_node_brief(folder, parent).plots):
        files[PLOTS_FILE] = plots
    node = format_node_id(decision_id)
    action = ExpandTree(
        stage=state.search.stage,
        kind=kind,
        parent=parent.id if parent is not None else None,
        ordinal=len(view.list_nodes_of_kind(kind)),
        seed=view.seed,
    )
    proposed = NodeProposed(
        node=node,
        decision=decision_id,
        title=program.title,
        plan=program.plan or program.title,
        varies=parent.varies if kind == "debug" and parent is not None else program.title,
        source_sha256=seal_source(folder.get_source_path(node), files),
        setups=read_constants(files),
        author=program.author,
    )
    return DecisionMade(k=decision_id, seen=seen, action=action), proposed


def _find_fault(source: str) -> str:
    """Return why code cannot or must not run; empty if it can."""
    try:
        tree = parse_python(source)
    except SyntaxError as error:
        return f"is not valid Python{f', line {error.lineno}' if error.lineno else ''}: {error.msg}"
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    foreign = next((name for name in names if name.startswith("lab.") or name.split(".")[0] == "labwright"), None)
    return f"imports {foreign!r}, which is internal: use 'import lab' and the installed packages" if foreign else ""
