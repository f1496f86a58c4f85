"""Programs of a repository study: an arm is defined by command-line words of the plan, or by a patch from a model."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.roles.experiment_code import Program
from labwright.record.baseline_check import check_baseline
from labwright.record.errors import UserError
from labwright.record.events.repository_events import BaselineChecked
from labwright.record.events.search_events import DecisionMade
from labwright.record.repository_source import RepositoryProgram, build_program
from labwright.record.schema.cell import Cell
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.source_tree import PLOTS_FILE
from labwright.sandbox.datasets import materialise
from labwright.sandbox.job import CellTask, Job, JobOutcome, measure_all
from labwright.sandbox.metrics import METRICS
from labwright.search.stage_snapshot import StageSnapshot
from labwright.stages.repository.patched_arms import NothingLeftError, has_only_word_arms, write_patched_program
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
    assert context.repository is not None and isinstance(decided.action, ExpandTree)
    action, code, plots = (
        decided.action,
        build_plan_code(context.repository.code, context.plan),
        {PLOTS_FILE: read_plot_script()},
    )
    roles = () if action.stage == "ablation" else ("method",)
    if not has_only_word_arms(context.plan, *roles):
        program, files, added = await write_patched_program(context, decided, client, code)
        return program, files | plots, added
    if nothing := explain_nothing_new(view, action, context.plan):
        raise NothingLeftError(nothing)
    parts = [arm.name for arm in context.plan.arms if (arm.role == "ablation") == (action.stage == "ablation")]
    return (
        Program(
            title="the repository's command for each arm",
            varies=", ".join(parts),
            plan="Every arm runs the same command in the repository at its commit, with the arguments that the data "
            "plan gives for it; the metric is read from the output of the repository.",
        ),
        build_program(context.plan.arms, code) | plots,
        (),
    )


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
    assert context.repository is not None
    plan, code, level = context.state.search.data_plan, context.repository.code, ""
    if plan is not None:
        baseline, code = next(arm for arm in plan.arms if arm.role == "baseline"), build_plan_code(code, plan)
        level = next((one for one in plan.level_names if plan.has_cell(plan.datasets[0].name, baseline.name, one)), "")
    data, name = next(iter(context.sources)), code.name or code.command.metric
    await to_thread(
        materialise, data, views=context.folder.views, labels=context.folder.labels, seed=seed, sources=context.sources
    )
    code = code.model_copy(update={"name": name})
    cell = Cell(dataset=data, arm="baseline", level=level, seed=seed)
    outcome = await _run_unmodified(context, code, cell)
    values = _read_metric_values(outcome, code)
    if not values:
        lines = [line.why for line in outcome.cells if line.why]
        why = outcome.failure.message if outcome.failure is not None else "; ".join(lines)
        raise BaselineError(
            f"the unmodified repository produced no value of {name}: {why.strip() or 'no error was reported'}"
        )
    if plan is None and code.command.seeded and outcome.seconds <= MAX_QUICK_SECONDS:
        for more in (seed + 1, seed + 2):
            values += _read_metric_values(
                await _run_unmodified(context, code, cell.model_copy(update={"seed": more})), code
            )
    expected = context.repository.expected
    check = check_baseline(values, expected)
    context.recorder.append(
        BaselineChecked(
            tree=context.repository.code.tree,
            mean=check.mean,
            spread=check.spread,
            verdict=check.verdict,
            seconds=outcome.seconds,
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
