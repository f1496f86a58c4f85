"""Compare planners of ablations paper by paper, from the results of finished benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.text import Text

from labwright.agent.cli.output import format_line
from labwright.evals.ablationbench.data import TASKS, Task
from labwright.evals.ablationbench.means import PairedPlannerDifference, compute_paired_difference
from labwright.evals.ablationbench.output import format_interval
from labwright.evals.ablationbench.table import AblationBenchTable
from labwright.record.claims.estimates import adjust_p_values
from labwright.record.errors import UsageError
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.table import Table

RESULTS_FILE = "results.json"


class PlannerComparison(FrozenModel):
    """All pairs of planners on their common papers; p is adjusted with Holm over all pairs of a figure."""

    planners: tuple[str, ...]
    paired: tuple[PairedPlannerDifference, ...]


def compare_planners(outs: Sequence[Path]) -> PlannerComparison:
    """Compare every pair of benchmarks on the papers that both scored. Raises `UsageError`."""
    if len(outs) < 2:
        raise UsageError("--compare needs the folders of at least two benchmarks")
    tables = [(_planner_name(out, outs), _read_results(out)) for out in outs]
    found: list[PairedPlannerDifference] = []
    for task, figure in itertools.product(TASKS, ("precision", "recall", "f1")):
        family = [
            one
            for (first, a), (second, b) in itertools.combinations(tables, 2)
            if (one := _compare_pair(first, a, second, b, task, figure)) is not None
        ]
        adjusted = adjust_p_values([one.p for one in family])
        found += [one.model_copy(update={"adjusted": p}) for one, p in zip(family, adjusted, strict=True)]
    if not found:
        raise UsageError("no two of these benchmarks have scored a common paper")
    return PlannerComparison(planners=tuple(name for name, _ in tables), paired=tuple(found))


def _planner_name(out: Path, outs: Sequence[Path]) -> str:
    return out.name if sum(one.name == out.name for one in outs) == 1 else str(out)


def _read_results(out: Path) -> AblationBenchTable:
    try:
        return AblationBenchTable.model_validate_json((out / RESULTS_FILE).read_bytes())
    except (OSError, ValidationError):
        raise UsageError(
            f"{out} contains no results of scientist bench ablation: finish that benchmark first"
        ) from None


def _compare_pair(
    first: str, a: AblationBenchTable, second: str, b: AblationBenchTable, task: Task, figure: str
) -> PairedPlannerDifference | None:
    scores = [
        {row.id: row.figures[figure] for row in one.rows if row.task == task and figure in row.figures}
        for one in (a, b)
    ]
    common = [id for id in scores[0] if id in scores[1]]
    if not common:
        return None
    return compute_paired_difference(
        first, second, f"{task} {figure}", [(scores[0][id], scores[1][id]) for id in common]
    )


def format_comparison(found: PlannerComparison) -> Iterator[Text | Table]:
    yield Table.of(
        ("figure", "first", "second", "n", "difference", "95 % interval", "p (Holm)"),
        (
            (
                one.figure,
                one.first,
                one.second,
                str(one.difference.n),
                f"{one.difference.mean:+.3f}",
                format_interval(one.difference),
                "-" if one.adjusted is None else f"{one.adjusted:.3f}",
            )
            for one in found.paired
        ),
    )
    yield format_line("difference: first minus second, by paper; intervals resample papers, p by paired t tests", "dim")
