"""Claims: means over the replicates of one frozen node, with the spread between their seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from record.claims.intervals import interval
from record.claims.replicates import ablations, replicates_of, trusted_replicates, winner
from record.fold.state import RunState
from record.nouns.frozen import Frozen
from record.nouns.measurements import Grade, Measurement, Split
from record.nouns.nodes import Node

GRADES: tuple[Grade, ...] = ("scored", "evaluated", "computed", "logged")
"""From the one that says most to the one that says least."""


class Claim(Frozen):
    """A value over replicates, with all that it rests on. `values`, `seeds` and `nodes` run in the same order.

    `sd`, `low` and `high` are None where fewer than two different values were measured.
    """

    key: str
    name: str
    dataset: str
    condition: str
    split: Split
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    nodes: tuple[str, ...]
    grade: Grade
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def constant(self) -> bool:
        """Whether several seeds gave one and the same value: their spread is unknown."""
        return self.n > 1 and self.sd is None


def validation_claims(state: RunState, node: str) -> list[Claim]:
    """Claims over the replicates of a node, on validation data."""
    return _claims("validation", [(one, one.measurements) for one in trusted_replicates(state, node)])


def claims_on_test(state: RunState) -> list[Claim]:
    """The claims of the paper, on test data: the winner's conditions, and those that only ablations measured."""
    return _with_ablations(state, lambda node: _claims(
        "test", [(one, state.tests.get(one.id, ())) for one in trusted_replicates(state, node)]))


def ablation_claims(state: RunState) -> list[Claim]:
    """The same on validation data, as far as ablations are there."""
    return _with_ablations(state, lambda node: validation_claims(state, node))


def _with_ablations(state: RunState, claims_of: Callable[[str], list[Claim]]) -> list[Claim]:
    best = winner(state)
    if best is None:
        return []
    claims = claims_of(best)
    known = {claim.key for claim in claims}
    for node in ablations(state):
        more = claims_of(node.id)
        claims += [claim for claim in more if claim.key not in known]
        known |= {claim.key for claim in more}
    return claims


def paper_claims(state: RunState) -> list[Claim]:
    """What the paper may print: test claims; validation claims where the code submitted no test predictions."""
    best = winner(state)
    return claims_on_test(state) or (validation_claims(state, best) if best else [])


def ablation_conditions(state: RunState) -> tuple[str, ...]:
    """Conditions that only ablation nodes measured on test data, in order of appearance."""
    best = winner(state)
    main = {m.condition for one in replicates_of(state, best or "") for m in state.tests.get(one.id, ())}
    found: dict[str, None] = {}
    for node in ablations(state):
        for one in replicates_of(state, node.id):
            found |= dict.fromkeys(m.condition for m in state.tests.get(one.id, ()) if m.condition not in main)
    return tuple(found)


def weakest(grades: Iterable[Grade]) -> Grade:
    """The grade that says least: a value over several stands on the poorest of them."""
    return max(grades, key=GRADES.index)


def _claims(split: Split, runs: Iterable[tuple[Node, Sequence[Measurement]]]) -> list[Claim]:
    cells: dict[tuple[str, str, str], list[tuple[Node, Measurement]]] = defaultdict(list)
    for node, measurements in runs:
        for one in measurements:
            if one.step is None and one.split == split:
                cells[one.dataset, one.name, one.condition].append((node, one))
    return [_claim(split, cell) for cell in cells.values()]


def _claim(split: Split, cell: list[tuple[Node, Measurement]]) -> Claim:
    cell = sorted(cell, key=lambda pair: pair[1].seed)
    first = cell[0][1]
    values = tuple(one.value for _, one in cell)
    sd, low, high = interval(values)
    return Claim(
        key=f"{split}/{first.dataset}/{first.name}/{first.condition}", name=first.name, dataset=first.dataset,
        condition=first.condition, split=split, values=values, seeds=tuple(one.seed for _, one in cell),
        nodes=tuple(node.id for node, _ in cell), grade=weakest(one.grade for _, one in cell),
        mean=fmean(values), sd=sd, low=low, high=high)
