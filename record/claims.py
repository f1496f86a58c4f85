"""The evidence ledger: what the record supports, as claims with stable keys, computed from measurements.

A claim is a mean over replicates of one frozen node; the seed that the search looked at is excluded, since it was
chosen for its result. A difference is paired by seed. Intervals are 95 % Student t. Where all seeds gave the same
value there is no spread to speak of: the claim has no standard deviation and no interval, rather than ones of width 0.

What it does not guarantee: that a claim is interesting, or that the code behind a `logged` value is right; there is no
correction for several comparisons yet.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal

from record.fold import RunState
from record.nouns import Frozen, Grade, Measurement, MetricSpec, Node, Split, arm_of, level_of

MINIMUM_REPLICATES = 5
"""Below this no comparison is called; with 3 seeds the half-width is 2.48 standard deviations (FACTS)."""

MOST_DIGITS = 6
"""Digits after the point that are printed at most."""

GRADES: tuple[Grade, ...] = ("scored", "evaluated", "computed", "logged")
"""From the one that says most to the one that says least."""

Called = Literal["improved", "no measurable difference", "unknown"]


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


class Difference(Claim):
    """A paired difference `condition - other`, with what may be said of it."""

    other: str
    better: str
    called: Called


def replicates_of(state: RunState, node: str) -> list[Node]:
    """The replicates of a node, failed ones included."""
    return [one for one in state.nodes.values() if one.kind == "replicate" and one.parent == node]


def trusted_replicates(state: RunState, node: str) -> list[Node]:
    """The replicates that claims may rest on: none of a suspect node, and none that is suspect itself."""
    if node in state.nodes and state.nodes[node].suspect:
        return []
    return [one for one in replicates_of(state, node) if not one.suspect]


def same_values(replicates: Iterable[Node], tests: Mapping[str, Sequence[Measurement]] | None = None) -> bool:
    """Whether at least two good replicates measured, and all measured the same values: their code ignores its seed.

    Right for a deterministic method, and never a measure of noise: an sd of 0 here is no noise of 0. Where values are
    few and coarse (accuracy on a small split), seeds may agree by chance. `tests` are scored test values by node.
    """
    found: dict[tuple[str, str, str, Split], list[float]] = defaultdict(list)
    for node in replicates:
        if node.status == "good":
            for one in (*node.measurements, *(tests or {}).get(node.id, ())):
                found[one.name, one.dataset, one.condition, one.split].append(one.value)
    return any(len(values) > 1 for values in found.values()) and all(len(set(v)) == 1 for v in found.values())


def ignores_seed(state: RunState, node: str) -> bool:
    """`same_values` of a node's replicates, test values included once they are scored."""
    return same_values(replicates_of(state, node), state.tests)


def seedless(state: RunState) -> tuple[str, ...]:
    """All replicated nodes whose code ignores its seed."""
    replicated = dict.fromkeys(one.parent for one in state.nodes.values() if one.kind == "replicate")
    return tuple(node for node in replicated if node in state.nodes and ignores_seed(state, node))


def winner(state: RunState) -> str | None:
    """The node that the paper reports: the best of the last stage that found one before ablation.

    One that is not suspect, while there is any; of a suspect winner nothing is claimed.
    """
    found = [best for stage in ("agenda", "tuning", "preliminary") if (best := state.stages[stage].best) is not None]
    trusted = (best for best in found if best not in state.nodes or not state.nodes[best].suspect)
    return next(trusted, found[0] if found else None)


def ablations(state: RunState) -> list[Node]:
    """The good nodes of the ablation stage that stand for an ablated part."""
    return [node for node in state.stage_nodes("ablation")
            if node.kind in ("ablate", "debug") and node.status == "good" and not node.suspect]


def validation_claims(state: RunState, node: str) -> list[Claim]:
    """Claims over the replicates of a node, on validation data."""
    return _claims("validation", [(one, one.measurements) for one in trusted_replicates(state, node)])


def claims_on_test(state: RunState) -> list[Claim]:
    """The claims of the paper, on test data: the winner's conditions, and those that only ablations measured."""
    best = winner(state)
    if best is None:
        return []
    claims = _claims("test", [(one, state.tests.get(one.id, ())) for one in trusted_replicates(state, best)])
    known = {claim.key for claim in claims}
    for node in ablations(state):
        more = _claims("test", [(one, state.tests.get(one.id, ())) for one in trusted_replicates(state, node.id)])
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


def differences(state: RunState, claims: Sequence[Claim]) -> list[Difference]:
    """Paired differences at equal level: method minus baseline, and ablation minus method."""
    plan = state.data_plan
    if plan is None:
        return []
    metrics = {metric.name: metric for metric in plan.metrics}
    role = {arm.name: arm.role for arm in plan.arms}
    against = {"method": "baseline", "ablation": "method"}
    return [
        _difference(a, b, metrics[a.name])
        for a in claims for b in claims
        if (a.name, a.dataset, a.split) == (b.name, b.dataset, b.split) and a.name in metrics
        and level_of(a.condition) == level_of(b.condition)
        and role.get(arm_of(b.condition), "ablation") == against.get(role.get(arm_of(a.condition), "ablation"))
        and set(a.seeds) & set(b.seeds)
    ]


def interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Standard deviation and 95 % Student t interval of the mean; None where fewer than two values differ."""
    if len(set(values)) < 2:
        return None, None, None
    from scipy.stats import t  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    sd = stdev(values)
    half = float(t.ppf(0.975, len(values) - 1)) * sd / math.sqrt(len(values))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return sd, fmean(values) - half, fmean(values) + half


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


def _difference(a: Claim, b: Claim, metric: MetricSpec) -> Difference:
    by_seed = dict(zip(b.seeds, b.values, strict=True))
    pairs = [(seed, node, value - by_seed[seed])
             for seed, node, value in zip(a.seeds, a.nodes, a.values, strict=True) if seed in by_seed]
    values = tuple(value for _, _, value in pairs)
    mean = fmean(values)
    sd, low, high = interval(values)
    return Difference(
        key=f"diff/{a.dataset}/{a.name}/{a.condition}~{b.condition}", name=a.name, dataset=a.dataset,
        condition=a.condition, other=b.condition, split=a.split, values=values,
        seeds=tuple(seed for seed, _, _ in pairs), nodes=tuple(node for _, node, _ in pairs),
        grade=weakest((a.grade, b.grade)),
        mean=mean, sd=sd, low=low, high=high,
        better=a.condition if (mean > 0) == metric.higher_is_better else b.condition,
        called=_call(values, sd, low, high))


def weakest(grades: Iterable[Grade]) -> Grade:
    """The grade that says least: a value over several stands on the poorest of them."""
    return max(grades, key=GRADES.index)


def _call(values: Sequence[float], sd: float | None, low: float | None, high: float | None) -> Called:
    if len(values) < MINIMUM_REPLICATES or sd is None or low is None or high is None:
        return "unknown"
    return "no measurable difference" if low <= 0 <= high else "improved"


# --- as they are printed --------------------------------------------------------------------------------------------


def printed(claims: Iterable[Claim]) -> dict[str, str]:
    """Every form in which a claim may stand in a paper: key with suffix -> TeX text.

    `.mean .sd .n .low .high`, `.pm` (mean and sd), `.ci` (interval). A missing sd or interval prints as n/a.
    """
    texts: dict[str, str] = {}
    for claim in claims:
        digits = decimals(claim)
        number = [_number(value, digits) for value in (claim.mean, claim.sd, claim.low, claim.high)]
        mean, sd, low, high = number
        texts |= {
            f"{claim.key}.mean": mean, f"{claim.key}.sd": sd, f"{claim.key}.low": low, f"{claim.key}.high": high,
            f"{claim.key}.n": str(claim.n),
            f"{claim.key}.pm": mean if claim.sd is None else rf"{mean}\,\ensuremath{{\pm}}\,{sd}",
            f"{claim.key}.ci": "n/a" if claim.low is None else f"[{low}, {high}]",
        }
    return texts


def decimals(claim: Claim) -> int:
    """Digits after the point: three as a rule, fewer for large values, more where a bound or value would print as zero.

    An interval that excludes zero must not print as if it ended there.
    """
    largest = max(abs(value) for value in claim.values)
    if largest >= 100:
        return 1
    digits = 3 if largest >= 0.01 or largest == 0 else min(MOST_DIGITS, 2 - math.floor(math.log10(largest)))
    bounds = [bound for bound in (claim.low, claim.high) if bound]
    while digits < MOST_DIGITS and any(round(bound, digits) == 0 for bound in bounds):
        digits += 1
    return digits


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "n/a"
    text = f"{value:.{digits}f}"
    return rf"\ensuremath{{-}}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def setups(state: RunState) -> dict[str, str]:
    """Values that a paper may print without a measurement: constants of the winner's code, data, settings."""
    texts: dict[str, str] = {}
    best = winner(state)
    if best is not None:
        texts |= {f"code.{name}": str(value) for name, value in state.nodes[best].setups.items()}
        texts["run.seeds"] = str(len(replicates_of(state, best)))
    for facts in state.datasets:
        texts |= {f"data.{facts.name}.{split}": str(size) for split, size in facts.sizes.items()}
        texts |= {f"data.{facts.name}.classes": str(facts.classes), f"data.{facts.name}.features": str(facts.features),
                  f"data.{facts.name}.duplicates": str(facts.duplicates)}
    for level in state.data_plan.levels if state.data_plan else ():
        if level.value is not None:
            texts[f"level.{level.name}"] = f"{level.value:g}"
    texts["run.nodes"] = str(sum(1 for node in state.nodes.values() if node.kind not in ("replicate", "aggregate")))
    texts["run.executions"] = str(sum(len(node.attempts) for node in state.nodes.values()))
    return texts
