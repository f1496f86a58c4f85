"""Programs of a study of a repository: words of the plan make an arm, or a patch that a model writes."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path

from labwright.models.client import ModelClient
from labwright.models.roles.coding import Program
from labwright.record.errors import ExpectedFailure
from labwright.record.events.repository import BaselineChecked
from labwright.record.events.searching import Decided
from labwright.record.expected import check_baseline
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Expand
from labwright.record.repository_source import Code, program_of
from labwright.record.source import PLOTS
from labwright.sandbox.datasets import materialise
from labwright.sandbox.job import Job, Outcome
from labwright.sandbox.metrics import METRICS
from labwright.search.tree import View
from labwright.stages.bench import Bench
from labwright.stages.repository.patches import NothingLeftError, by_words, patched_program

PLOT_SCRIPT = Path(__file__).parent / "repository_plots.txt"
SWIFT = 60.0
"""Seconds of a run of the repository up to which it is run with more seeds before a model plans."""


class BaselineError(ExpectedFailure):
    """The repository as it is does not give what it should. Who acts: the person."""


def code_of_plan(code: Code, plan: DataPlan) -> Code:
    """What every cell of the plan's study runs."""
    levels = {one.name: one.words for one in plan.all_levels}
    words = {
        one.name: tuple(word for name in one.parts or (one.name,) for word in levels.get(name, ()))
        for one in plan.levels
    }
    return code.model_copy(
        update={
            "name": plan.primary.name,
            "levels": {name: each for name, each in words.items() if each},
            "dimensions": {one.name: one.word for one in plan.space if one.word},
        }
    )


async def repository_program(
    bench: Bench, decided: Decided, client: ModelClient, view: View
) -> tuple[Program, dict[str, str], tuple[str, ...]]:
    """The program that measures the plan's arms: what it is, its files, and the arms beside those of the plan.

    Raises `NothingLeftError`, `ModelError`.
    """
    assert bench.repository is not None and isinstance(decided.action, Expand)
    action, code, plots = decided.action, code_of_plan(bench.repository.code, bench.plan), {PLOTS: plot_script()}
    if not by_words(bench.plan):
        program, files, added = await patched_program(bench, decided, client, code)
        return program, files | plots, added
    if nothing := nothing_new(view, action, bench.plan):
        raise NothingLeftError(nothing)
    parts = [arm.name for arm in bench.plan.arms if (arm.role == "ablation") == (action.stage == "ablation")]
    return (
        Program(
            title="the repository's command, arm by arm",
            varies=", ".join(parts),
            plan="Every arm is the same command in the repository at its commit, with the words that the data "
            "plan gives "
            "for it; its number is read where the repository leaves it.",
        ),
        program_of(bench.plan.arms, code) | plots,
        (),
    )


def plot_script() -> str:
    """Draws what the cells gave, of one node or of several replicates."""
    return PLOT_SCRIPT.read_text(encoding="utf-8")


def nothing_new(view: View, action: Expand, plan: DataPlan) -> str:
    """Why a node would measure nothing that is not measured; empty where it would."""
    if action.stage == "ablation" or action.kind == "ablate":
        return "" if any(arm.role == "ablation" for arm in plan.arms) else "the plan has no arm that is an ablation"
    known = [one.id for one in view.nodes.values() if one.source_sha256 and one.kind in ("draft", "improve")]
    return f"{known[0]} measures all arms of the plan already" if known and action.kind != "debug" else ""


async def check_repository(bench: Bench, seed: int) -> None:
    """Run the repository as it is: once, and where a model is to plan and it is swift with two more seeds, so that it
    knows what seeds do. Raises `BaselineError` where it gives no number, or another than expected."""
    assert bench.repository is not None
    plan, code, level = bench.state.data_plan, bench.repository.code, ""
    if plan is not None:
        baseline, code = next(arm for arm in plan.arms if arm.role == "baseline"), code_of_plan(code, plan)
        level = next((one for one in plan.level_names if plan.owes(plan.datasets[0].name, baseline.name, one)), "")
    data, name = next(iter(bench.sources)), code.name or code.command.metric
    await to_thread(
        materialise, data, views=bench.folder.views, labels=bench.folder.labels, seed=seed, sources=bench.sources
    )
    code = code.model_copy(update={"name": name})
    cell = Cell(dataset=data, arm="baseline", level=level, seed=seed)
    outcome = await _as_it_is(bench, code, cell)
    values = _numbers(outcome, code)
    if not values:
        lines = [line.why for line in outcome.cells if line.why]
        why = outcome.failure.message if outcome.failure is not None else "; ".join(lines)
        raise BaselineError(f"the repository as it is gives no {name}: {why.strip() or 'no reason told'}")
    if plan is None and code.command.seeded and outcome.seconds <= SWIFT:
        for more in (seed + 1, seed + 2):
            values += _numbers(await _as_it_is(bench, code, cell.model_copy(update={"seed": more})), code)
    expected = bench.repository.expected
    check = check_baseline(values, expected)
    bench.recorder.append(
        BaselineChecked(
            tree=bench.repository.code.tree,
            runs=(),
            mean=check.mean,
            spread=check.spread,
            verdict=check.verdict,
            seconds=outcome.seconds,
        )
    )
    if check.verdict == "differs" and expected is not None:
        raise BaselineError(
            f"the repository as it is gives {check.mean:.6g} over {len(values)} seed{'s' * (len(values) > 1)}, and "
            f"{expected.value:g} within {expected.tolerance:g} is expected: find out why (scientist ablate "
            "--reproduce-only), or give another --expect"
        )


async def _as_it_is(bench: Bench, code: Code, cell: Cell) -> Outcome:
    return await bench.executor.run(
        Job(
            name="the repository as it is",
            folder=bench.folder.root / "probes" / f"baseline-{cell.seed}",
            cells=(cell,),
            source=program_of((), code),
            seed=cell.seed,
            timeout=bench.node_seconds,
            leave_out=False,
        )
    )


def _numbers(outcome: Outcome, code: Code) -> list[float]:
    """The metric that is read, or where predictions are scored the first of its direction; empty where it is
    not there.
    """
    better = code.command.direction == "max"
    return [
        one.value
        for one in outcome.measurements
        if one.name == code.name
        or (not code.name and one.name in METRICS and METRICS[one.name].higher_is_better == better)
    ][:1]
