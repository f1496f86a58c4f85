"""Planners of ablations against each other, paper by paper, from the results of finished benches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from labwright.agent.cli.shown import line, table
from labwright.evals.ablationbench.data import TASKS, Task
from labwright.evals.ablationbench.means import Paired, paired
from labwright.evals.ablationbench.shown import interval
from labwright.evals.ablationbench.table import BenchTable
from labwright.record.claims.means import holm
from labwright.record.errors import WrongUse
from labwright.record.nouns.frozen import Frozen

JSON = "results.json"


class Comparison(Frozen):
    """Planners on the papers that both have, each pair of them; p adjusted after Holm over all pairs of a figure."""

    planners: tuple[str, ...]
    paired: tuple[Paired, ...]


def compared(outs: Sequence[Path]) -> Comparison:
    """Every pair of benches on the papers that both scored. Raises `WrongUse`."""
    if len(outs) < 2:
        raise WrongUse("--compare needs the folders of two benches or more")
    tables = [(_name(out, outs), _read(out)) for out in outs]
    found: list[Paired] = []
    for task, figure in itertools.product(TASKS, ("precision", "recall", "f1")):
        family = [
            one
            for (first, a), (second, b) in itertools.combinations(tables, 2)
            if (one := _pair(first, a, second, b, task, figure)) is not None
        ]
        adjusted = holm([one.p for one in family])
        found += [one.model_copy(update={"adjusted": p}) for one, p in zip(family, adjusted, strict=True)]
    if not found:
        raise WrongUse("these benches have no paper in common that each of two scored")
    return Comparison(planners=tuple(name for name, _ in tables), paired=tuple(found))


def _name(out: Path, outs: Sequence[Path]) -> str:
    return out.name if sum(one.name == out.name for one in outs) == 1 else str(out)


def _read(out: Path) -> BenchTable:
    try:
        return BenchTable.model_validate_json((out / JSON).read_bytes())
    except (OSError, ValidationError):
        raise WrongUse(f"{out} holds no results of scientist bench ablation: run the bench to its end first") from None


def _pair(first: str, a: BenchTable, second: str, b: BenchTable, task: Task, figure: str) -> Paired | None:
    scores = [
        {row.id: row.figures[figure] for row in one.rows if row.task == task and figure in row.figures}
        for one in (a, b)
    ]
    common = [id for id in scores[0] if id in scores[1]]
    if not common:
        return None
    return paired(first, second, f"{task} {figure}", [(scores[0][id], scores[1][id]) for id in common])


def comparison_lines(found: Comparison) -> Iterator[Text | Table]:
    yield table(
        "figure",
        "first",
        "second",
        "n",
        "difference",
        "95 % interval",
        "p (Holm)",
        rows=(
            (
                one.figure,
                one.first,
                one.second,
                str(one.difference.n),
                f"{one.difference.mean:+.3f}",
                interval(one.difference),
                "-" if one.adjusted is None else f"{one.adjusted:.3f}",
            )
            for one in found.paired
        ),
    )
    yield line("difference: first minus second, by paper; intervals resample papers, p by paired t tests", "dim")
