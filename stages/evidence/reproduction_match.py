"""Compare numbers of the record with those of reproduced nodes: equal, within noise, or different.

With the recorded processor, interpreter and thread count, the printed digits must be equal. Otherwise, and on a GPU, a
mean may differ within the measured noise: the tolerance is exceeded by two means of equally many replicates in only a
fraction `FALSE_ALARM_RATE` of cases (Student t).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from labwright.record.claims.estimates import compute_t_interval, compute_t_quantile, find_replicates
from labwright.record.claims.formatting import format_claims
from labwright.record.printed_value import PrintedValue
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import to_plain_text
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.frozen_model import FrozenModel
from labwright.stages.paper.paper_context import build_paper_claims

FALSE_ALARM_RATE = 0.001
"""Rate at which a correct number from nondeterministic code is reported as different."""

Quantity = tuple[str, str, str, str]


def compare_numbers(
    state: RunState, reproductions: Sequence[NodeReproduction], *, exact: bool
) -> Iterator[ReproducedNumber]:
    """Yield every number that depends on these nodes, claims of the paper first; `exact` requires equal digits."""
    again = {one.node: one for one in reproductions}
    claims = build_paper_claims(state)
    by_key = {one.key: one for one in build_paper_claims(_apply_reproductions(state, again)).all_claims}
    for claim in claims.all_claims:
        if reproduced := tuple(node for node in claim.nodes if node in again):
            after = by_key.get(claim.key)
            values = dict(zip(claim.nodes, claim.values, strict=True))
            new = dict(zip(after.nodes, after.values, strict=True)) if after is not None else {}
            texts: dict[str, tuple[PrintedValue, PrintedValue]] = {}
            if after is not None and after.nodes == claim.nodes == reproduced:
                new_texts = format_claims([after])
                texts = {key.rpartition(".")[2]: (text, new_texts[key]) for key, text in format_claims([claim]).items()}
            yield _build_number(
                _NumberComparison(
                    claim.key,
                    True,
                    reproduced,
                    tuple(values[node] for node in reproduced),
                    tuple(map(new.get, reproduced)),
                    claim.sd,
                    claim.n,
                    texts,
                ),
                same=exact,
            )
    covered = {(node, (one.split, one.dataset, one.name, one.condition)) for one in claims.means for node in one.nodes}
    for name, one in again.items():  # values outside claims: on validation, and of the seed used for selection
        node = state.nodes[name]
        top = node.parent if node.kind == "replicate" and node.parent else name
        noise: dict[Quantity, list[float]] = {}
        for replicate in find_replicates(state, top):
            for measured in (*replicate.measurements, *state.search.test_measurements.get(replicate.id, ())):
                noise.setdefault(_to_quantity(measured), []).append(measured.value)
        after = {_to_quantity(measured): measured.value for measured in (*one.measurements, *one.tests)}
        for measured in (*node.measurements, *state.search.test_measurements.get(name, ())):
            quantity = _to_quantity(measured)
            if (name, quantity) not in covered:
                spread = noise.get(quantity, [])
                yield _build_number(
                    _NumberComparison(
                        f"{name}:{'/'.join(quantity)}",
                        False,
                        (name,),
                        (measured.value,),
                        (after.get(quantity),),
                        compute_t_interval(spread)[0],
                        len(spread),
                    ),
                    same=exact,
                )


def _apply_reproductions(state: RunState, again: Mapping[str, NodeReproduction]) -> RunState:
    """Return the state with the reproduced measurements of these nodes in place of the recorded ones."""
    nodes = dict(state.nodes)
    for name, one in again.items():
        *earlier, last = nodes[name].attempts
        attempts = (*earlier, last.model_copy(update={"measurements": one.measurements}))
        nodes[name] = nodes[name].model_copy(update={"attempts": attempts})
    return replace(
        state,
        nodes=nodes,
        search=replace(
            state.search,
            test_measurements=state.search.test_measurements
            | {name: one.tests for name, one in again.items() if name in state.search.test_measurements},
        ),
    )


@dataclass(frozen=True)
class _NumberComparison:
    """Values before and after, node by node.

    `sd` is over all `replicates`. `printed_texts` has both values as printed, by form (`pm`, `ci`, ...), if all nodes
    of the mean were reproduced.
    """

    key: str
    claim: bool
    nodes: tuple[str, ...]
    recorded: tuple[float, ...]
    reproduced: tuple[float | None, ...]
    sd: float | None
    replicates: int
    printed_texts: Mapping[str, tuple[PrintedValue, PrintedValue]] = field(
        default_factory=dict[str, tuple[PrintedValue, PrintedValue]]
    )


def _to_quantity(one: Measurement) -> Quantity:
    return one.split, one.dataset, one.name, one.condition


def _build_number(cell: _NumberComparison, *, same: bool) -> ReproducedNumber:
    """Build the number, printed as mean and interval if all nodes of a claim were reproduced, otherwise as values."""
    present = [value for value in cell.reproduced if value is not None]
    is_missing = len(present) < len(cell.reproduced)
    difference = None if is_missing else abs(fmean(present) - fmean(cell.recorded))
    noise = compute_tolerance(cell.sd, cell.replicates, len(cell.nodes))
    before, after = ([_format_value(value) for value in values] for values in (cell.recorded, cell.reproduced))
    equal = not is_missing and all(a == b for a, b in (*zip(before, after, strict=True), *cell.printed_texts.values()))
    verdict: ReproductionVerdict = "missing" if is_missing else "equal" if equal else "different"
    if verdict == "different" and not same and difference is not None and noise is not None and difference <= noise:
        verdict = "within noise"
    recorded, new = (
        (" ".join(to_plain_text(cell.printed_texts[form][side]) for form in ("pm", "ci")) for side in (0, 1))
        if cell.printed_texts
        else (", ".join(before), ", ".join(after))
    )
    return ReproducedNumber(
        key=cell.key,
        claim=cell.claim,
        nodes=cell.nodes,
        replicates=max(cell.replicates, 1),
        difference=difference,
        noise=noise,
        recorded=recorded,
        reproduced=new,
        verdict=verdict,
    )


def _format_value(value: float | None) -> str:
    return "missing" if value is None else f"{value:.4g}"


def compute_tolerance(sd: float | None, replicates: int, reproduced: int) -> float | None:
    """Return the tolerance for the mean over `reproduced` replicates; None if the noise is unknown."""
    if sd is None or replicates < 2:
        return None
    return compute_t_quantile(1 - FALSE_ALARM_RATE / 2, replicates - 1) * sd * math.sqrt(2 / reproduced)


ReproductionVerdict = Literal["equal", "within noise", "different", "missing"]


class NodeReproduction(FrozenModel):
    """A node that was executed again. `failure` is the reason why its numbers are missing; empty if it ended as
    recorded.
    """

    node: str
    kind: str
    seed: int
    seconds: float = 0.0
    recorded_seconds: float
    failure: str = ""
    measurements: tuple[Measurement, ...] = ()
    tests: tuple[Measurement, ...] = ()


class ReproducedNumber(FrozenModel):
    """A number over its reproduced nodes. `noise` is the largest acceptable `difference`; None if unknown."""

    key: str
    claim: bool
    """Whether the paper may print it under this key; other values appear in the appendix or only in the record."""
    nodes: tuple[str, ...]
    replicates: int
    """Number of replicates that it is a mean over."""
    recorded: str
    reproduced: str
    difference: float | None
    noise: float | None
    verdict: ReproductionVerdict


class RunReproduction(FrozenModel):
    """The result of a reproduction. If `environment_differences` is empty, digits must be equal."""

    nodes: tuple[NodeReproduction, ...]
    numbers: tuple[ReproducedNumber, ...]
    environment_differences: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes behind the paper's numbers that were left out on request."""

    @property
    def is_reproduced(self) -> bool:
        """Whether every node ended as recorded, and every number is equal or differs within the noise."""
        ended = not any(one.failure for one in self.nodes)
        return ended and all(one.verdict in ("equal", "within noise") for one in self.numbers)
