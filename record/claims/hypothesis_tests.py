"""Test the hypotheses of a plan: the values of each effect by unit, its interval, its direction and its claim.

An effect is computed for every seed from that seed's own values, so arms are paired; its interval covers seeds and, if
they also count as a sample, test examples or clusters of them (`record.claims.differences`). A quotient of cells is the
ratio of the means over seeds, with Fieller's interval. If datasets are the unit, a value is a dataset's mean over seeds
and a quotient the mean of the datasets' quotients. With fewer than `MIN_CLUSTERS` clusters, nothing is decided.

A seed whose training diverged is left out, with the rate of every arm reported next to the verdict. Seeds without a
value for another reason are left out and reported.

Each effect has two answers, both from its interval. Its direction is positive, negative, equivalent (within plus and
minus the smallest effect, where zero means "no effect") or open. Its claim (above zero, at least or at most a
bound, within plus and minus the smallest effect) is supported, refuted or open. A hypothesis is supported if all its
effects are supported, which needs no correction, and refuted if one is refuted.

The p of a claim is the two-sided level at which its interval would just support it. With looks
(`record.schema.decisions`), it is the smallest p divided by weight, and a claim is decided by the intersection of the
intervals of all looks, each at the level times its weight. If these do not overlap, the interval of the last look
counts; it is printed if the intersection does not contain the estimate. The p of a hypothesis is the largest of its
parts. A hypothesis that presupposes another is tested after it, only if that one is supported, at the same level;
Holm's correction covers these chains. So at most 2.5 % of studies support a false claim, however the hypotheses depend
on each other.

A hypothesis of which no arm is better than a constant prediction on validation data is open, whatever its intervals
(`record.claims.floor`): its arms differ by chance.

Limits: values by seed and by cluster are assumed roughly normal (estimands with a minimum or maximum are skewed even
then, so their intervals are wider). Preview verdicts, on validation data or on seeds that the search has used, confirm
nothing. Hypotheses that presuppose the same one are tested one after another, in the plan's order.

Sources: Holm 1979; Berger 1982, "Multiparameter hypothesis testing and acceptance sampling" (all effects must be
supported); Jennison and Turnbull 1999, chapter 9 (intervals over looks); Bretz, Maurer, Brannath and Posch 2009 (chains
within Holm's correction); Kish 1965 and Carter, Schnepel and Steigerwald 2017 (effective number of unequal clusters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite, nan
from statistics import fmean, stdev
from types import MappingProxyType
from typing import NamedTuple

from labwright.record.claims.differences import MeanEstimate, RatioEstimate, compute_mean_p, estimate_mean, solve_level
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, find_trusted_replicates, find_winner
from labwright.record.claims.floor import NO_SCORES, ConstantScores, explain_saturation, find_floored
from labwright.record.claims.planned_seeds import count_precise_units
from labwright.record.errors import UserError
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    EstimandValue,
    Expression,
    MissingCell,
    evaluate_estimand,
    find_effect_metric,
    has_extreme,
    is_change,
    is_contrast,
    list_cells_read,
    list_conditions_read,
    split_quotient,
)
from labwright.record.events.search_events import LookTaken
from labwright.record.float_compare import differs_beyond_rounding
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement, ResampledInterval
from labwright.record.schema.decisions import build_look_weights, combine_look_p
from labwright.record.schema.hypotheses import (
    Effect,
    EffectDecision,
    EffectDirection,
    Hypothesis,
    HypothesisDecision,
    HypothesisVerdict,
    IntervalUnit,
)
from labwright.record.schema.nodes import Attempt, Node

ValuesByCell = Mapping[tuple[str, str, str], float]
"""(dataset, condition, metric) -> value, for one run on one split."""
SKEWED_LEVEL_FACTOR = 0.6
"""Factor on the level of intervals of estimands with `min`, `max` or `worst`: the minimum of several normal values is
skewed, and Student's interval misses its mean on one side in up to 3.9 % (of 30 values, five seeds) instead of 2.5 %.
Measured by `benchmarks.decisions`."""
MIN_CLUSTERS = 5
"""Minimum number of clusters of test examples for a verdict; with fewer, the spread is not reliable."""


class ReplicateValues(NamedTuple):
    """One execution of the winner's program: its seed, and its values on the deciding split and on others."""

    seed: int
    node: str
    values: ValuesByCell
    values_by_split: Mapping[str, ValuesByCell] = {}
    """Split -> values: dev and validation, used for choices inside an estimand."""
    diverged: frozenset[CellRef] = frozenset()
    failure: str = ""
    """The reason why the execution has no values."""
    required: frozenset[CellRef] | None = None
    """The cells that it had to measure; None: all."""


ResampledLookup = Callable[[str], ResampledInterval | None]
"""Look up the resampling interval of an effect by key; None on validation data, which is not resampled."""
CellValueLookup = Callable[[CellRef], EstimandValue | None]
"""Values that replace the measured ones of a run, i.e. resampled or hypothetical values."""


class UnmeasuredEffectError(UserError):
    """Raised if no seed has a value for an effect that a study must decide: a fault of its code, plan or record."""


class DivergedError(Exception):
    """Raised if training of arms that an effect reads diverged, so that the seed is left out."""

    def __init__(self, arms: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(arms)))
        self.arms = arms


def format_effect_key(hypothesis: Hypothesis, number: int) -> str:
    """Return the key of the effect at index `number` of `list_estimated_effects`."""
    return f"hypothesis/{hypothesis.id}/{number}"


def list_estimated_effects(hypothesis: Hypothesis) -> tuple[Effect, ...]:
    """Return all estimated effects of a hypothesis, in the order of their keys: its effects, alternatives, and its
    rival's."""
    return tuple(list_effect_keys(hypothesis).values())


def list_effect_keys(hypothesis: Hypothesis) -> dict[str, Effect]:
    """Return the estimated effects by the keys that print them, see `HypothesisDecision.parts_by_key`."""
    effects = {str(number): one for number, one in enumerate(hypothesis.effects, 1)}
    effects |= {f"alternative-{number}": one for number, one in enumerate(hypothesis.alternatives, 1)}
    if hypothesis.rival is not None:
        first = hypothesis.effects[0]
        effects["rival"] = Effect(estimand=hypothesis.rival.estimand, metric=first.metric, smallest=first.smallest)
    return {f"hypothesis/{hypothesis.id}/{name}": effect for name, effect in effects.items()}


def find_cluster_faults(plan: DataPlan, known: Mapping[str, DatasetFacts]) -> Iterator[str]:
    """Yield the reasons why the test examples that a hypothesis reads cannot be clustered as it requires, one
    sentence each.
    """
    for one in (one for one in plan.hypotheses if one.cluster):
        where = f"hypothesis {one.id!r}"
        read = {dataset for dataset, _, _ in list_conditions_read(list_estimated_effects(one), plan)}
        for name in (use.name for use in plan.datasets if use.name in read):
            columns, found = known[name].meta, known[name].meta_in_test.get(one.cluster, MIN_CLUSTERS)
            if one.cluster not in columns:
                there = (
                    f"there are {', '.join(columns)}" if columns else "there are none (set group= or meta= of the data)"
                )
                yield f"{where}: {name!r} has no column {one.cluster!r} to cluster by; {there}"
            elif found < MIN_CLUSTERS:
                yield (
                    f"{where}: the test examples of {name!r} form {found} clusters by {one.cluster!r}, but at least "
                    f"{MIN_CLUSTERS} are needed: use unit 'seeds and examples' and say in `untested` that other "
                    "clusters are not tested, or use data with more clusters"
                )


def decide_hypotheses(state: RunState, levels: Mapping[str, float] | None = None) -> tuple[HypothesisDecision, ...]:
    """Decide every hypothesis of the plan in order: on test data if they are scored, otherwise as a preview on
    validation data.

    In a branch of a run whose test data were already scored, all hypotheses are exploratory. `levels` gives the
    significance level of each hypothesis if the family contains more than this run.
    """
    search, plan = state.search, state.search.data_plan
    if plan is None or not plan.hypotheses:
        return ()
    if state.reuses_test_data:
        exploratory = tuple(one.model_copy(update={"confirmatory": False}) for one in plan.hypotheses)
        plan = plan.model_copy(update={"hypotheses": exploratory})
    (nodes, fresh), lock = find_deciding_nodes(state), search.current_lock
    decide = partial(decide_from_looks, plan, levels=levels or {}, scores=read_constant_scores(state))
    if search.looks and lock is not None and fresh:
        last = search.looks[-1]
        ended = bool(last.ends) and last.look + 1 < len(lock.looks)
        return decide(_read_looks(state, nodes), confirmed=True, ended=ended)
    scored = bool(search.test_measurements)

    def find_resampled(key: str) -> ResampledInterval | None:
        unknown = ResampledInterval(key=key, nodes=(), reason="nobody resampled them")
        return search.resampled_intervals.get(key, unknown) if scored else None

    confirmed = fresh and not (lock is not None and lock.looks) and (scored or not has_test_data(nodes))
    return decide([LookSample([read_values(state, one) for one in nodes], find_resampled)], confirmed=confirmed)


def read_constant_scores(state: RunState) -> ConstantScores:
    """Return what a constant prediction reaches on the validation data of a run."""
    sizes = {one.name: one.sizes.get("validation", 0) for one in state.search.datasets}
    return ConstantScores(state.search.constants, sizes)


class LookSample(NamedTuple):
    """The runs that one look reads, and its share of the level."""

    runs: Sequence[ReplicateValues]
    find_resampled: ResampledLookup = lambda key: None
    weight: float = 1.0
    look: int | None = None
    tested: Collection[str] | None = None
    """Confirmatory hypotheses that it tests: those that no earlier look decided; None: all."""


def _read_looks(state: RunState, nodes: Sequence[Node]) -> list[LookSample]:
    """Return the sample of each look that was taken: the first complete fresh seeds."""
    search, by_seed = state.search, {node.seed: node for node in nodes}
    assert search.current_lock is not None
    weights = build_look_weights(len(search.current_lock.looks) or 1)

    def read_runs(look: LookTaken) -> list[ReplicateValues]:
        return [read_values(state, by_seed[seed]) for seed in look.seeds if seed in by_seed]

    tested = (None, *(one.undecided for one in search.looks))
    return [
        LookSample(read_runs(one), {found.key: found for found in one.resampled}.get, weights[one.look], one.look, ids)
        for one, ids in zip(search.looks, tested, strict=False)
    ]


def decide_across_runs(states: Mapping[str, RunState]) -> dict[str, tuple[HypothesisDecision, ...]]:
    """Decide the hypotheses of several runs; confirmed hypotheses are decided at levels from Holm's correction over
    all runs.
    """
    alone = {name: decide_hypotheses(state) for name, state in states.items()}
    levels = compute_joint_levels(alone)
    return alone | {name: decide_hypotheses(states[name], own) for name, own in levels.items()}


def compute_joint_levels(alone: Mapping[str, Sequence[HypothesisDecision]]) -> dict[str, dict[str, float]]:
    """Return study -> confirmed hypothesis -> its level from Holm's correction over all of them."""
    levels: dict[str, dict[str, float]] = {}
    chains = [
        (name, chain)
        for name, every in alone.items()
        for chain in list_chains([one.hypothesis for one in every if one.confirmed])
    ]
    found = {(name, one.hypothesis.id): one.p for name, every in alone.items() for one in every}
    largest = [_find_largest([found[name, one.id] for one in chain]) for name, chain in chains]
    for (name, chain), level in zip(chains, compute_holm_levels(largest), strict=True):
        levels.setdefault(name, {}).update({one.id: level for one in chain})
    return levels


def decide_after_look(state: RunState, taken: LookTaken) -> tuple[HypothesisDecision, ...]:
    """Decide the hypotheses after a look that is not recorded yet."""
    return decide_hypotheses(replace(state, search=replace(state.search, looks=[*state.search.looks, taken])))


def close_look(state: RunState, taken: LookTaken, decisions: Sequence[HypothesisDecision]) -> LookTaken:
    """Return a look with the claims that it leaves undecided of those that it tested."""
    tested = state.search.looks[taken.look - 1].undecided if taken.look else None
    undecided = tuple(name for name in list_undecided(decisions) if tested is None or name in tested)
    return taken.model_copy(update={"undecided": undecided, "conclusive": not undecided})


def check_measured(decisions: Iterable[HypothesisDecision]) -> None:
    """Raise `UnmeasuredEffectError` if seeds ran, and none of them has a value for a confirmatory effect."""
    for one in decisions:
        for key, part in one.parts_by_key.items():
            if one.hypothesis.confirmatory and part in one.parts and part.left_out and not part.ran:
                count = len(part.left_out)
                raise UnmeasuredEffectError(f"{key}: none of {count} seeds has a value; the first: {part.left_out[0]}")


def list_chains(hypotheses: Sequence[Hypothesis]) -> list[tuple[Hypothesis, ...]]:
    """Return the confirmatory hypotheses in chains: each starts with one that presupposes no other, followed by those
    that presuppose it, directly or through others, in the order in which they are tested."""
    known = {one.id: one for one in hypotheses if one.confirmatory}
    chains: dict[str, list[tuple[int, Hypothesis]]] = {}
    for one in known.values():
        depth, head = 0, one
        while head.presupposes in known and depth < len(known):
            depth, head = depth + 1, known[head.presupposes]
        chains.setdefault(head.id, []).append((depth, one))
    return [tuple(one for _, one in sorted(chain, key=lambda pair: pair[0])) for chain in chains.values()]


def _find_largest(p_values: Sequence[float | None]) -> float | None:
    """Return the largest p; None if any p is unknown."""
    known = [p for p in p_values if p is not None]
    return max(known) if len(known) == len(p_values) else None


def find_deciding_nodes(state: RunState) -> tuple[list[Node], bool]:
    """Return the replicates that decide, and whether they are the fresh ones of the lock (others give only a preview).

    If a seed was run twice, the last replicate counts.
    """
    best, lock = find_winner(state), state.search.current_lock
    if best is None:
        return [], False
    nodes = {one.seed: one for one in find_trusted_replicates(state, best) if one.is_finished}
    return [*nodes.values()], bool(nodes) and lock is not None and all(map(lock.is_fresh_seed, nodes))


def has_test_data(nodes: Iterable[Node]) -> bool:
    """Return whether any of these nodes has sealed test results. A repository without a test metric has none: fresh
    seeds, which the search never used, decide on its one metric."""
    return any(one.attempts and one.attempts[-1].sealed for one in nodes)


def read_values(state: RunState, node: Node) -> ReplicateValues:
    """Return the values of a replicate: on test data if nodes are scored, otherwise on validation data."""
    tests = state.search.test_measurements
    return read_replicate_values(node, tests.get(node.id, ()) if tests else None)


def read_deciding_runs(state: RunState) -> list[ReplicateValues]:
    """Return the values of the executions that decide the hypotheses."""
    return [read_values(state, node) for node in find_deciding_nodes(state)[0]]


def read_replicate_values(node: Node, tests: Sequence[Measurement] | None = None) -> ReplicateValues:
    """Read the values of a replicate: on test data if `tests` is given, otherwise on validation data.

    Values on dev are self-reported by the code.
    """
    last = node.attempts[-1] if node.attempts else Attempt(number=1)
    values: dict[str, dict[tuple[str, str, str], float]] = {"dev": {}, "validation": {}, "test": {}}
    for one in (*last.self_reported, *node.measurements, *(tests or ())):
        if one.split in values and one.step is None:
            values[one.split][one.dataset, one.condition, one.name] = one.value
    required = {CellRef(one.cell.dataset, one.cell.measured_arm, one.cell.level): one.diverged for one in last.cells}
    return ReplicateValues(
        node.seed,
        node.id,
        values["validation" if tests is None else "test"],
        values,
        frozenset(cell for cell, diverged in required.items() if diverged),
        node.failure.message if node.failure is not None else "",
        frozenset(required) or None,
    )


def decide_from_runs(
    plan: DataPlan,
    runs: Sequence[ReplicateValues],
    *,
    confirmed: bool,
    find_resampled: ResampledLookup = lambda key: None,
    levels: Mapping[str, float] = MappingProxyType({}),
    scores: ConstantScores = NO_SCORES,
) -> tuple[HypothesisDecision, ...]:
    """Decide every hypothesis of a plan from these runs, in one test."""
    sample = LookSample(runs, find_resampled)
    return decide_from_looks(plan, [sample], confirmed=confirmed, levels=levels, scores=scores)


def decide_from_looks(
    plan: DataPlan,
    samples: Sequence[LookSample],
    *,
    confirmed: bool,
    levels: Mapping[str, float],
    ended: bool = False,
    scores: ConstantScores = NO_SCORES,
) -> tuple[HypothesisDecision, ...]:
    """Decide every hypothesis of a plan from one sample, or from those of several looks.

    `ended` says that sampling ended before the last look of the table. A claim is decided from the looks that test it.
    """
    floored = find_floored(plan, scores, [run.values_by_split.get("validation", {}) for run in samples[-1].runs])

    def list_samples(one: Hypothesis) -> list[LookSample]:
        return [each for each in samples if each.tested is None or one.id in each.tested or not one.confirmatory]

    measured = {
        one.id: [
            [
                _estimate_effect(
                    plan, one.unit, effect, sample.runs, sample.find_resampled(format_effect_key(one, number))
                )
                for sample in list_samples(one)
            ]
            for number, effect in enumerate(list_estimated_effects(one))
        ]
        for one in plan.hypotheses
    }
    weights = [sample.weight for sample in samples]

    def compute_p(one: Hypothesis) -> float | None:
        if one.id in floored:
            return None
        parts = measured[one.id][: len(one.effects)]
        p_values = ([each.compute_p() if each.found is not None else None for each in looks] for looks in parts)
        return _find_largest([combine_look_p(each, weights) for each in p_values])

    found = {one.id: compute_p(one) for one in plan.hypotheses}
    chains = list_chains(plan.hypotheses)
    own = compute_holm_levels([_find_largest([found[one.id] for one in chain]) for chain in chains])
    level_of = {one.id: level for chain, level in zip(chains, own, strict=True) for one in chain} | dict(levels)
    decided: dict[str, HypothesisDecision] = {}
    for chain in (*chains, *((one,) for one in plan.hypotheses if not one.confirmatory)):
        for place, one in enumerate(chain):
            level = level_of.get(one.id, SIGNIFICANCE_LEVEL)
            unsupported = (each.id for each in chain[:place] if decided[each.id].verdict != "supported")
            base = HypothesisDecision(
                hypothesis=one,
                parts=(),
                verdict="open",
                p=found[one.id],
                level=level,
                family=max(1, len(chains)) if one.confirmatory else 1,
                confirmed=confirmed and one.confirmatory,
                look=(last := list_samples(one)[-1]).look,
                after=next(unsupported, ""),
                floored=floored[one.id].reason if one.id in floored else "",
                saturated=explain_saturation(plan, one, [run.values for run in last.runs]),
            )
            early = ended or last is not samples[-1]
            parts = [_decide_effect(looks, level, weights[: len(looks)], ended=early) for looks in measured[one.id]]
            decided[one.id] = _build_decision(one, parts, base)
    return tuple(decided[one.id] for one in plan.hypotheses)


def list_undecided(decisions: Sequence[HypothesisDecision]) -> tuple[str, ...]:
    """Return the confirmatory hypotheses that need further seeds. A claim needs none if it is supported or refuted,
    waits for one that needs none and is not supported, compares arms at the floor, or has intervals whose half-width is
    at most a third of the smallest effect."""
    asked = [one for one in decisions if one.hypothesis.confirmatory and one.verdict == "open" and not one.floored]
    own = {one.hypothesis.id for one in asked if not (one.after or all(part.is_precise for part in one.parts))}
    return tuple(one.hypothesis.id for one in asked if one.hypothesis.id in own or one.after in own)


def compute_holm_levels(p_values: Sequence[float | None]) -> list[float]:
    """Return the level at which Holm's correction tests each p; after the first failed test, all use its level."""
    ordered = sorted(range(len(p_values)), key=lambda place: inf if (p := p_values[place]) is None else p)
    levels, failed = [SIGNIFICANCE_LEVEL] * len(p_values), 0.0
    for rank, place in enumerate(ordered):
        level = failed or SIGNIFICANCE_LEVEL / (len(p_values) - rank)
        p = p_values[place]
        if p is None or p > level:
            failed = level
        levels[place] = level
    return levels


class _EffectEstimate(NamedTuple):
    """An effect before its interval is computed: its mean with its spread, or the reason why there is none."""

    base: EffectDecision
    """Its values by unit, and the reasons why other seeds have none."""
    quotients: tuple[tuple[float, float], ...] = ()
    """For a quotient over seeds: numerator and divisor with each seed."""
    found: MeanEstimate | RatioEstimate | None = None
    covers_examples: bool = False
    """Whether the spread over test examples is known, even if seeds share none of it."""

    @property
    def level_factor(self) -> float:
        """The factor by which the level of the interval is multiplied."""
        return SKEWED_LEVEL_FACTOR if has_extreme(self.base.effect.estimand) else 1.0

    def compute_interval(self, level: float) -> tuple[float, float]:
        """Return the interval at a level; the whole line if the divisor of a ratio may be zero."""
        assert self.found is not None
        return self.found.compute_interval(level * self.level_factor)

    def compute_p(self) -> float:
        """Return the level at which the interval just supports the claim about the effect."""
        least, most = self.base.effect.claimed_range
        return max(self._compute_p_of_side(end, sign) for end, sign in ((least, 1.0), (most, -1.0)) if isfinite(end))

    def _compute_p_of_side(self, bound: float, sign: float) -> float:
        """Return the level at which the interval just lies above (1) or below (-1) a bound."""
        found, factor = self.found, self.level_factor
        assert found is not None
        if isinstance(found, RatioEstimate):
            return solve_level(lambda level: found.find_side(bound, level * factor) == sign)
        return min(1.0, compute_mean_p(MeanEstimate(sign * found.mean, found.spread), sign * bound) / factor)


def _estimate_effect(
    plan: DataPlan, unit: IntervalUnit, effect: Effect, runs: Sequence[ReplicateValues], over: ResampledInterval | None
) -> _EffectEstimate:
    try:
        found = _collect_unit_values(plan, unit, effect, runs)
    except (MissingCell, EstimandError) as error:
        why = f"{error} was not measured by the node that decides" if isinstance(error, MissingCell) else str(error)
        return _EffectEstimate(EffectDecision(effect=effect, values=(), why=why))
    base, why, sampled = found.base, "", over if "and" in unit else None
    if not base.values:
        diverged = "training diverged with every seed" if any(base.diverged.values()) else "nothing was measured"
        why = next(iter(base.left_out), "") or diverged
    elif len(base.values) < 2:
        why = "one unit shows no spread"
    elif over is not None and unit == "seeds and clusters":
        if over.sd is None or over.reason:
            why = f"the spread over clusters is unknown: {over.reason or 'a score has no value'}"
        elif over.worth and over.clusters < MIN_CLUSTERS:
            why = f"{over.clusters} clusters, at least {MIN_CLUSTERS} needed"
    if not why:
        estimate = _estimate_from_units(found, sampled)
        if estimate.spread.is_known:
            covers_examples = sampled is not None and bool(sampled.shared or sampled.sd)
            base = base.model_copy(update={"mean": estimate.mean})
            return found._replace(base=base, found=estimate, covers_examples=covers_examples)
        why = "every seed gave the same: the spread is unknown"
    return found._replace(base=base.model_copy(update={"why": why}))


def _estimate_from_units(units: _EffectEstimate, over: ResampledInterval | None) -> MeanEstimate | RatioEstimate:
    """Return the mean of an effect, or the ratio of means, with its spread over units and, if known, over examples. The
    sign of the divisor of a relative change is ignored."""
    freedom, shared = (over.worth - 1.0 if over.worth else inf, over.shared) if over is not None else (inf, ())
    if units.quotients:
        above, below, both = shared or (0.0, 0.0, 0.0)
        is_negative = is_change(units.base.effect.estimand) and fmean(b for _, b in units.quotients) < 0
        sign = -1.0 if is_negative else 1.0
        return RatioEstimate(
            tuple(a for a, _ in units.quotients),
            tuple(sign * b for _, b in units.quotients),
            (above, below, sign * both),
            freedom,
        )
    return estimate_mean(units.base.values, shared[0] if shared else 0.0, freedom)


def _collect_unit_values(
    plan: DataPlan, unit: IntervalUnit, effect: Effect, runs: Sequence[ReplicateValues]
) -> _EffectEstimate:
    """Return the values of an effect by unit: a seed, or a dataset with its mean over seeds.

    Raises `MissingCell` if a dataset that is a unit has no value, and `EstimandError`.
    """
    quotient = split_quotient(effect.estimand) if unit != "datasets" else None  # there it is a mean of quotients
    by_dataset = unit == "datasets" and bool(runs)
    quotients, found, means = list[tuple[float, float]](), list[tuple[int, float]](), list[float]()
    left_out, diverged, ran = list[str](), Counter[str](), 0
    for dataset in [use.name for use in plan.datasets] if by_dataset else [""]:
        compute = partial(compute_effect_value, plan, effect, dataset=dataset)
        before = len(found)
        for run in runs:
            try:
                value = float(compute(run))
                if quotient is not None:
                    above, below = (float(compute(run, part=part)) for part in quotient)
                    quotients.append((above, below))
                found.append((run.seed, value))
            except DivergedError as those:
                diverged.update(those.arms)
            except MissingCell as gap:
                why = f" ({run.failure})" if run.failure else ""
                if run.required is None or gap.place._replace(selection_split="") in run.required:
                    left_out.append(f"{gap} was not measured by the node that decides{why}")
                continue
            ran += 1
        if by_dataset:
            if len(found) == before:
                raise MissingCell(CellRef(dataset, "every arm", ""), " together, with any seed,")
            means.append(fmean(value for _, value in found[before:]))
    cells = list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan))
    values = tuple(means if unit == "datasets" else (value for _, value in found))
    base = EffectDecision(
        effect=effect,
        values=values,
        seeds=() if unit == "datasets" else tuple(seed for seed, _ in found),
        mean=fmean(values) if values else None,
        diverged={place.arm: diverged[place.arm] for place in cells} if ran else {},
        ran=ran,
        left_out=tuple(left_out),
    )
    return _EffectEstimate(base, tuple(quotients))


def estimate_over_seeds(plan: DataPlan, effect: Effect, runs: Sequence[ReplicateValues]) -> EffectDecision:
    """Return the estimate of an effect that is not registered, with its 95 % interval over seeds alone."""
    found = _estimate_effect(plan, "seeds", effect, runs, None)
    return _decide_effect([found], SIGNIFICANCE_LEVEL, [1.0], ended=False)


def compute_effect_value(
    plan: DataPlan,
    effect: Effect,
    run: ReplicateValues,
    *,
    dataset: str = "",
    values: CellValueLookup | None = None,
    part: Expression | None = None,
) -> EstimandValue:
    """Return the value of an effect, or of a part of its estimand, in one run, on a dataset (default: the main one).

    Raises `DivergedError` if training of an arm that it reads diverged, `MissingCell` if a cell is missing, and
    `EstimandError`.
    """
    metric = find_effect_metric(effect, plan)
    diverged, missing = set[str](), list[CellRef]()

    def read(place: CellRef) -> EstimandValue:
        if values is not None and not place.selection_split:
            found = values(place)
        else:
            known = run.values_by_split.get(place.selection_split, {}) if place.selection_split else run.values
            found = known.get((place.dataset, place.condition, metric.name))
        if found is not None:
            return found
        if place._replace(selection_split="") not in run.diverged:
            missing.append(place)
            return nan
        if place.selection_split:  # never selected
            return -inf if metric.higher_is_better else inf
        diverged.add(place.arm)
        return nan

    try:
        value = evaluate_estimand(part or effect.estimand, plan, metric, read, dataset=dataset)
    except MissingCell as gap:
        raise MissingCell(gap.place, f" with seed {run.seed}") from None
    if diverged:
        raise DivergedError(frozenset(diverged))
    if missing:
        raise MissingCell(missing[0], f" with seed {run.seed}")
    return value


def _build_decision(one: Hypothesis, parts: Sequence[EffectDecision], base: HypothesisDecision) -> HypothesisDecision:
    """Return the decision with these parts: effects, alternatives and rival, in this order."""
    end = len(one.effects) + len(one.alternatives)
    if base.floored:
        nothing = {"verdict": "open", "direction": "open", "why": base.floored, "needed": None, "optimistic": False}
        parts = [part.model_copy(update=nothing) for part in parts]
    own, others, rival = parts[: len(one.effects)], parts[len(one.effects) : end], parts[end:]
    if base.after and not base.floored:
        waits = {"verdict": "open", "why": f"tested only after {base.after} is supported", "needed": None}
        own = [part.model_copy(update=waits) for part in own]
    verdicts = {part.verdict for part in own}
    return base.model_copy(
        update={
            "parts": tuple(own),
            "verdict": "refuted" if "refuted" in verdicts else "open" if "open" in verdicts else "supported",
            "holds": sum(part.verdict == "supported" for part in others),
            "others": tuple(others),
            "rival": rival[0] if rival else None,
        }
    )


def _decide_effect(
    looks: Sequence[_EffectEstimate], level: float, weights: Sequence[float], *, ended: bool
) -> EffectDecision:
    """Decide an effect from its estimates at one or more looks."""
    part, own = looks[-1], level * weights[-1]
    base, effect = part.base, part.base.effect
    if part.found is None or base.mean is None:
        return base
    pairs = zip(looks, weights, strict=True)
    ends = [one.compute_interval(level * weight) for one, weight in pairs if one.found is not None]
    low, high = max(end for end, _ in ends), min(end for _, end in ends)
    verdict = classify_claim(*((low, high) if low <= high else ends[-1]), effect)
    if not low <= base.mean <= high:
        low, high = ends[-1]
    if low == -inf or high == inf:
        return base.model_copy(update={"why": "the divisor is not clearly different from zero"})
    earlier = "decided at an earlier look" if verdict != classify_claim(low, high, effect) else ""
    spread, own_level, is_open, needed = part.found.spread, own * part.level_factor, verdict == "open", None
    if is_open:
        needed = count_precise_units(spread, len(base.values), effect.smallest, own_level)
    return base.model_copy(
        update={
            "low": low,
            "high": high,
            "direction": classify_direction(low, high, effect),
            "verdict": verdict,
            "examples": part.covers_examples,
            "floor": spread.compute_floor(own_level),
            "sd": stdev(base.values) if differs_beyond_rounding(base.values) else None,
            "why": "" if is_open else earlier,
            "needed": needed,
            "optimistic": ended and not is_open,
        }
    )


def classify_direction(low: float, high: float, effect: Effect) -> EffectDirection:
    """Return where an interval lies. Only an estimand whose zero means "no effect" can be equivalent to zero."""
    if low > 0 or high < 0:
        return "positive" if low > 0 else "negative"
    inside = -effect.smallest < low and high < effect.smallest
    return "equivalent" if inside and is_contrast(effect.estimand) else "open"


def classify_claim(low: float, high: float, effect: Effect) -> HypothesisVerdict:
    """Return whether an interval supports or refutes the claim about an effect."""
    least, most = effect.claimed_range
    if least < low and high < most:
        return "supported"
    return "refuted" if high < least or low > most else "open"
