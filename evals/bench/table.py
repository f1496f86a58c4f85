"""Summary of a benchmark: for each step and dimension the mean over tasks, its spread, cost and failures.

Failed and refused steps have no score; they are counted separately, not as zero. A mean over successful tasks
flatters a model that fails on hard ones, so the counts are shown next to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from labwright.evals.bench.tasks import STEPS, StepLine, StepName
from labwright.evals.intervals import MeanWithInterval, compute_mean, format_range
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, find_ablation_nodes
from labwright.record.reducers.run_state import RoleUsage, RunState, StageState, sum_usage
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import StageName
from labwright.record.table import Table


class DimensionMean(MeanWithInterval):
    """One dimension of one step, over the `n` tasks whose step was judged."""

    dimension: str
    lowest: int = Field(description="of the scale")
    highest: int


class StepTable(FrozenModel):
    """One step over all tasks. Costs and seconds are sums; judging is counted separately."""

    step: StepName
    asked: bool
    tasks: int
    done: int
    failed: int
    refused: int
    not_begun: int
    judged: int
    not_judged: int = Field(description="completed steps whose judging failed or was refused")
    checks: dict[str, int] = Field(
        default_factory=dict[str, int], description="question of the rubric -> judgements that answer it with yes"
    )
    means: tuple[DimensionMean, ...] = ()
    took: RoleUsage
    judging: RoleUsage
    seconds: float


class MlrBenchTable(FrozenModel):
    """The whole benchmark."""

    tasks: int
    model: str
    judge: str
    steps: tuple[StepTable, ...]
    lines: tuple[StepLine, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether every step is done, and every requested step is judged."""
        return all(one.done == one.tasks and (not one.asked or one.judged == one.tasks) for one in self.steps)


def build_table(lines: Sequence[StepLine], *, model: str, judge: str) -> MlrBenchTable:
    """Build the table of a benchmark."""
    steps: list[StepName] = [step for step in STEPS if any(line.step == step for line in lines)]
    return MlrBenchTable(
        tasks=len({line.task for line in lines}),
        model=model,
        judge=judge,
        lines=tuple(lines),
        steps=tuple(_build_step(step, [line for line in lines if line.step == step]) for step in steps),
    )


def _build_step(step: StepName, lines: Sequence[StepLine]) -> StepTable:
    states = [line.outcome.state for line in lines]
    given = [line.scoring for line in lines if line.scoring and line.scoring.judgement]
    is_requested = any(line.asked for line in lines)
    checks: dict[str, int] = {}
    scores: dict[tuple[str, int, int], list[float]] = {}
    for scoring in given:
        found = {check.check for one in scoring.judgements for check in one.checks if check.answer}
        for check in scoring.judgements[0].checks:
            checks[check.check] = checks.get(check.check, 0) + (check.check in found)
        for key, score in scoring.scores.items():
            scores.setdefault(key, []).append(score)
    means = (
        DimensionMean.model_validate(
            {"dimension": name, "lowest": lowest, "highest": highest}
            | {key: value and round(value, 4) for key, value in mean}
        )
        for (name, lowest, highest), values in scores.items()
        if (mean := compute_mean(values)) is not None
    )
    return StepTable(
        step=step,
        asked=is_requested,
        tasks=len(lines),
        done=states.count("done"),
        failed=states.count("failed"),
        refused=states.count("refused"),
        not_begun=states.count("not begun"),
        judged=len(given),
        not_judged=states.count("done") - len(given) if is_requested else 0,
        checks=checks,
        means=tuple(means),
        took=sum_usage(line.outcome.took for line in lines),
        judging=sum_usage(line.scoring.took for line in lines if line.scoring),
        seconds=round(sum(line.outcome.seconds for line in lines), 1),
    )


def table_to_csv(found: MlrBenchTable) -> str:
    """Return one row per step of a task; an empty cell means no score."""
    dimensions = list(dict.fromkeys(mean.dimension for step in found.steps for mean in step.means))
    rows: list[tuple[object, ...]] = []
    for line in found.lines:
        given = line.scoring.judgement if line.scoring else None
        scores = {key[0]: f"{score:g}" for key, score in line.scoring.scores.items()} if line.scoring else {}
        took, judging = line.outcome.took, line.scoring.took if line.scoring else RoleUsage()
        rows.append(
            (
                line.task,
                line.step,
                line.outcome.state,
                line.scoring.state if line.scoring else None,
                *(scores.get(name) for name in dimensions),
                given.confidence if given else None,
                took.calls,
                round(took.usd, 6),
                took.unpriced,
                round(judging.usd, 6),
                judging.unpriced,
                line.outcome.seconds,
                line.outcome.document,
                line.outcome.why or (line.scoring.why if line.scoring else ""),
            )
        )
    head = ("task", "step", "state", "judged", *dimensions, "confidence", "calls", "usd", "unpriced")
    return Table.of((*head, "judge_usd", "judge_unpriced", "seconds", "document", "why"), rows).to_csv()


# Build the experiment report that is judged: plan, stages, measured values and comparisons, from the record. No model
# writes it, and it has nothing of the paper, so the experiments are judged independently of their presentation.

MAX_LINES = 60
"""Maximum lines of values, and of comparisons; the rest is counted."""


def format_experiment_report(state: RunState, best: str) -> str:
    """Return the report on a run that measured something, as Markdown; `best` is the reported node."""
    assert state.started is not None
    plan, claims = state.search.plan, compute_paper_claims(state)
    primary, better = plan.primary_metric.name, "higher" if plan.primary_metric.higher_is_better else "lower"
    values = [
        f"- {one.name} on {one.dataset} ({one.split}), {one.condition}: {one.mean:.4g} "
        f"({format_range(one.low, one.high)}; n = {one.n}; {one.grade})"
        for one in sorted(claims, key=lambda one: one.name != primary)
    ]
    compared = [
        f"- {one.name} on {one.dataset}, {one.condition} - {one.other}: {one.mean:+.4g} "
        f"({format_range(one.low, one.high)}; n = {one.n}): {one.basis_text}"
        for one in sorted(compute_differences(state, claims), key=lambda one: one.name != primary)
    ]
    failed = [
        f"- {node.kind} in {node.stage}: {node.status} ({' '.join(node.varies.split())[:120]})"
        for node in state.nodes.values()
        if node.status in ("buggy", "pruned", "cancelled")
    ]
    parts = {
        f"# Experiments: {state.started.idea.title}": [state.started.idea.short_hypothesis],
        "## Plan": [
            plan.task,
            "",
            *(f"- arm `{arm.name}` ({arm.role})" for arm in plan.arms),
            f"- datasets: {', '.join(one.name for one in state.search.datasets)}",
            f"- primary metric: {primary} ({better} is better)",
            *(f"- not tested: {one}" for one in plan.untested),
        ],
        "## Stages": [line for name, stage in state.search.stages.items() for line in _format_stage(name, stage)],
        "## Reported program": [state.nodes[best].plan],
        "## Measured values (mean over seeds, 95 % interval)": _cut_lines(values),
        "## Comparisons (paired by seed, corrected for one another)": _cut_lines(compared),
        "## Ablations": [f"- {node.varies}" for node in find_ablation_nodes(state)] or ["None."],
        "## Failures": _cut_lines(failed),
    }
    return "\n\n".join(f"{title}\n\n{chr(10).join(lines)}" for title, lines in parts.items()) + "\n"


def _format_stage(name: StageName, stage: StageState) -> Iterator[str]:
    one = stage.summary
    yield from (f"### {name}", "")
    yield from (one.tried, one.found, one.supported_by_replicates, "") if one else ("No report.", "")


def _cut_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"- ... and {more} more"] if more > 0 else lines or ["None."]
