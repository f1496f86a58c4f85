"""Claims: means over the replicates of one frozen node, with the spread across seeds.

Values are assumed independent and roughly normal, as t tests do. Power is computed from the measured standard
deviation, which is itself an estimate from few values, so a detectable difference is an estimate as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from statistics import fmean, stdev
from typing import Any

from labwright.record.estimands import find_swapped_arms
from labwright.record.float_compare import differs_beyond_rounding
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import format_key
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, EvidenceGrade, Measurement, Split, parse_arm, parse_level
from labwright.record.schema.nodes import Node

MIN_REPLICATES = 5
"""Minimum number of pairs for a verdict; with 3 seeds the interval's half-width is 2.48 standard deviations."""

SIGNIFICANCE_LEVEL = 0.05
"""Family-wise error rate; intervals have a confidence of `1 - SIGNIFICANCE_LEVEL`."""

TARGET_TEST_POWER = 0.8
"""Probability of finding a true difference of the size that is called detectable."""


def compute_t_interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the standard deviation and 95 % Student t interval of the mean; None if all values are equal."""
    if not differs_beyond_rounding(values):
        return None, None, None
    sd = _compute_deviation(tuple(values))
    half = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / 2, len(values) - 1) * sd / math.sqrt(len(values))
    return sd, fmean(values) - half, fmean(values) + half


def compute_p_value(values: Sequence[float]) -> float | None:
    """Return the two-sided p of the t test that paired differences have mean 0; None if all values are equal."""
    sd = _compute_deviation(tuple(values)) if differs_beyond_rounding(values) else 0.0
    if not sd:
        return None
    return min(1.0, 2.0 * compute_t_probability(-abs(fmean(values)) * math.sqrt(len(values)) / sd, len(values) - 1))


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Return each p-value adjusted for all of them, in order; None stays None but counts as a test without a finding.

    At most a share of `SIGNIFICANCE_LEVEL` of families without any true difference have an adjusted p at or below it,
    for any dependence between the tests. Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    adjusted: list[float | None] = [None] * len(p_values)
    ordered = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[place] = largest
    return adjusted


def compute_detectable_effect(n: int, sd: float, compared: int = 1) -> float | None:
    """Return the smallest true difference that `n` paired values with this deviation detect with 80 % power, two-sided.

    This uses the strictest step of Holm's correction over `compared` tests. None for fewer than `MIN_REPLICATES`
    values. The result has the unit of `sd`.
    """
    if n < MIN_REPLICATES:
        return None
    critical = compute_t_quantile(1 - SIGNIFICANCE_LEVEL / compared / 2, n - 1)
    # the noncentrality (in standard errors) at which t exceeds the bound with that power
    return float(_import_special().nctdtrinc(n - 1, 1.0 - TARGET_TEST_POWER, critical)) * sd / math.sqrt(n)


@lru_cache(maxsize=4096)
def _compute_deviation(values: tuple[float, ...]) -> float:
    """Cached `stdev`, which is exact but slow: the claims of a record are computed dozens of times."""
    return stdev(values)


@lru_cache(maxsize=1024)
def compute_t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t with `freedom` degrees of freedom at probability `share`."""
    return float(_import_special().stdtrit(freedom, share))


def compute_t_probability(value: float, freedom: float) -> float:
    """Return the probability that Student's t with `freedom` degrees of freedom is below `value`."""
    return float(_import_special().stdtr(freedom, value))


def compute_upper_rate(successes: int, trials: int, share: float) -> float:
    """Return the upper end of a one-sided Clopper-Pearson interval for a rate, with error probability `share`.

    Source: Clopper and Pearson 1934.
    """
    if successes >= trials:
        return 1.0
    return float(_import_special().betaincinv(successes + 1, trials - successes, 1 - share))


def _import_special() -> Any:
    """Import scipy.special on first use, since the import takes longer than most commands."""
    return import_module("scipy.special")


def find_replicates(state: RunState, node: str) -> list[Node]:
    """Return the replicates of a node, including failed ones."""
    return [one for one in state.nodes.values() if one.kind == "replicate" and one.parent == node]


def find_trusted_replicates(state: RunState, node: str) -> list[Node]:
    """Return the replicates that claims may use: none if the node is suspect, and no suspect replicates.

    Once seeds are locked, only fresh seeds count for the winner and its ablations, as soon as one of them works: the
    search has used the others. Of these, only seeds up to the last one read by a look count, so that verdicts
    and tables rest on the same runs. The seeds of an addendum never count (`find_added_replicates`).
    """
    search, lock = state.search, state.search.current_lock
    if node in state.nodes and state.nodes[node].suspect:
        return []
    found = [one for one in find_replicates(state, node) if not one.suspect and one.seed not in search.added_seeds]
    fresh = [one for one in found if lock is not None and lock.is_fresh_seed(one.seed)]
    if search.looks and search.looks[-1].seeds:
        fresh = [one for one in fresh if one.seed <= search.looks[-1].seeds[-1]]
    return fresh if any(one.status == "good" for one in fresh) else found


def select_whole_replicates(state: RunState, replicates: Iterable[Node]) -> list[Node]:
    """Return the working replicates that measured every cell; seeds that a look added may have fewer."""
    good = [one for one in replicates if one.status == "good"]
    counts = [len(known.cells) if (known := state.required_cells.get(one.id)) else 0 for one in good]
    return [one for one, count in zip(good, counts, strict=True) if count == max(counts)]


def find_added_replicates(state: RunState) -> list[Node]:
    """Return the working replicates of the confirmed node with the seeds of addenda."""
    best, seeds = find_winner(state), state.search.added_seeds
    found = find_replicates(state, best) if best is not None and not state.nodes[best].suspect else []
    return [one for one in found if one.seed in seeds and one.status == "good" and not one.suspect]


def has_same_values(replicates: Iterable[Node], tests: Mapping[str, Sequence[Measurement]] | None = None) -> bool:
    """Return whether at least two good replicates measured values and all values agree, i.e. the code ignores its seed.

    This is correct for a deterministic method, but the sd of 0 is not a measure of noise. If there are few possible
    values (accuracy on a small split), seeds may agree by chance. `tests` are scored test values by node.
    """
    found: dict[tuple[str, str, str, Split], list[float]] = defaultdict(list)
    for node in replicates:
        if node.status == "good":
            for one in (*node.measurements, *(tests or {}).get(node.id, ())):
                found[one.name, one.dataset, one.condition, one.split].append(one.value)
    return any(len(values) > 1 for values in found.values()) and all(len(set(v)) == 1 for v in found.values())


def is_seed_ignored(state: RunState, node: str) -> bool:
    """Return `has_same_values` for a node's replicates, including scored test values."""
    return has_same_values(find_replicates(state, node), state.search.test_measurements)


def nodes_ignoring_seed(state: RunState) -> tuple[str, ...]:
    """Return all replicated nodes whose code ignores its seed."""
    replicated = dict.fromkeys(one.parent for one in state.nodes.values() if one.kind == "replicate")
    return tuple(node for node in replicated if node in state.nodes and is_seed_ignored(state, node))


def find_winner(state: RunState) -> str | None:
    """Return the node that the paper reports: the best node of the last stage before ablation that has one.

    It prefers nodes that are not suspect; no claim is made about a suspect winner.
    """
    selected = (state.search.stages[stage].best for stage in ("agenda", "tuning", "preliminary"))
    found = [best for best in selected if best is not None]
    trusted = (best for best in found if best not in state.nodes or not state.nodes[best].suspect)
    return next(trusted, found[0] if found else None)


def find_ablation_nodes(state: RunState) -> list[Node]:
    """Return the good nodes of the ablation stage."""
    nodes = (node for node in state.list_stage_nodes("ablation") if node.kind in ("ablate", "debug"))
    return [node for node in nodes if node.status == "good" and not node.suspect]


GRADES_BEST_FIRST: tuple[EvidenceGrade, ...] = ("scored", "evaluated", "computed", "unattributed", "logged")


class Claim(FrozenModel):
    """A value over replicates, with its provenance. `values`, `seeds` and `nodes` have the same order.

    `sd`, `low` and `high` are None if fewer than two different values were measured.
    """

    key: str
    name: str
    dataset: str
    condition: str
    split: Split
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    nodes: tuple[str, ...]
    grade: EvidenceGrade
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def arm(self) -> str:
        return parse_arm(self.condition)

    @property
    def level(self) -> str:
        return parse_level(self.condition)

    @property
    def shown_split(self) -> str:
        """The split that readers are told; empty if only the code itself knows on which data it computed the value."""
        return "" if (self.split, self.grade) == ("validation", "logged") else self.split


def compute_validation_claims(state: RunState, node: str) -> list[Claim]:
    """Return claims over the replicates of a node, on validation data."""
    return compute_claims("validation", [(one, one.measurements) for one in find_trusted_replicates(state, node)])


def compute_test_claims(state: RunState) -> list[Claim]:
    """Return the claims of the paper, on test data: the winner's conditions, and those measured only by ablations."""
    return _compute_split_claims(state, "test")


def compute_ablation_claims(state: RunState) -> list[Claim]:
    """Return the same claims on validation data, including available ablations."""
    return _compute_split_claims(state, "validation")


def _compute_split_claims(state: RunState, split: Split) -> list[Claim]:
    best, tests, claims = find_winner(state), state.search.test_measurements, dict[str, Claim]()
    for node in [best, *(node.id for node in find_ablation_nodes(state))] if best is not None else []:
        runs = find_trusted_replicates(state, node)
        for claim in compute_claims(
            split, [(one, tests.get(one.id, ()) if split == "test" else one.measurements) for one in runs]
        ):
            claims.setdefault(claim.key, claim)
    return [*claims.values()]


def compute_paper_claims(state: RunState) -> list[Claim]:
    """Return the claims that the paper may print: test claims, or validation claims if no test predictions were
    submitted."""
    return compute_test_claims(state) or compute_ablation_claims(state)


def find_ablation_conditions(state: RunState) -> tuple[str, ...]:
    """Return the conditions of the paper's claims that only ablation nodes measured, in order of appearance; before
    them, arms of the winner at the setting of another."""
    claims = compute_paper_claims(state)
    own = {one.id for one in find_replicates(state, find_winner(state) or "")}
    main = dict.fromkeys(one.condition for one in claims if own.intersection(one.nodes))
    swapped = find_swapped_arms(state.search.data_plan) if state.search.data_plan is not None else {}
    return (
        *(condition for condition in main if parse_arm(condition) in swapped),
        *dict.fromkeys(one.condition for one in claims if one.condition not in main),
    )


def find_weakest_grade(grades: Iterable[EvidenceGrade]) -> EvidenceGrade:
    """Return the weakest grade: a value computed from several others is only as good as the weakest of them."""
    return max(grades, key=GRADES_BEST_FIRST.index)


def compute_claims(split: Split, runs: Iterable[tuple[Node, Sequence[Measurement]]]) -> list[Claim]:
    """Build claims from the final values of one split, by dataset, metric and condition, over nodes with different
    seeds."""
    cells: dict[tuple[str, str, str], list[tuple[Node, Measurement]]] = defaultdict(list)
    for node, one in ((node, one) for node, measurements in runs for one in measurements):
        if one.step is None and one.split == split:
            cells[one.dataset, one.name, one.condition].append((node, one))
    claims: list[Claim] = []
    for (dataset, name, condition), cell in cells.items():
        cell.sort(key=lambda pair: pair[1].seed)
        values = tuple(one.value for _, one in cell)
        sd, low, high = compute_t_interval(values)
        claims.append(
            Claim(
                key=format_key(split, dataset, name, condition),
                name=name,
                dataset=dataset,
                condition=condition,
                split=split,
                values=values,
                seeds=tuple(one.seed for _, one in cell),
                nodes=tuple(node.id for node, _ in cell),
                grade=find_weakest_grade(one.grade for _, one in cell),
                mean=fmean(values),
                sd=sd,
                low=low,
                high=high,
            )
        )
    return claims


# The score of a node, as shown in trees, charts, frames, tables and figures.


def compute_node_score(node: Node, plan: DataPlan | None) -> float | None:
    """Return the primary metric on the plan's main dataset (validation), as the mean over the method's conditions, or
    over all conditions.

    Only one dataset is used, since every stage measures it and values of different datasets have no common scale. None
    for reference models, or before there is a value.
    """
    if plan is None or node.kind == "rung":
        return None
    place = (plan.primary_metric.name, plan.datasets[0].name, "validation")
    found = [one for one in node.measurements if (one.name, one.dataset, one.split) == place]
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    values = [one.value for one in found if one.arm in methods] or [one.value for one in found]
    return fmean(values) if values else None
