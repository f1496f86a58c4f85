"""Estimates that the outline of a paper asks for, or an addendum registers: any estimand over measured cells, computed
as exploratory.

A value is computed for every seed that decides the hypotheses and that measured its arms, also those that ablations
added; its 95 % interval covers seeds, is not corrected for the number of requests, and does not cover test examples.
What is registered (effects, alternatives, rivals) has its own interval: an outline's request for it is replaced by its
key (`find_registered_key`). An estimate of an addendum may read its further fresh seeds, alone or with the others; one
that is a paired difference over the deciding seeds has that difference's interval, which covers test examples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import isclose
from random import Random
from typing import NamedTuple

from labwright.record.ablation_results import add_measured_arms
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, Claim, compute_paper_claims, find_added_replicates
from labwright.record.claims.formatting import format_estimate
from labwright.record.claims.hypothesis_tests import (
    ReplicateValues,
    estimate_over_seeds,
    list_effect_keys,
    read_deciding_runs,
    read_values,
)
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    classify_scale,
    evaluate_estimand,
    find_effect_metric,
    list_cells_read,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import PrintedValue, format_key
from labwright.record.schema.data_plan import Arm, DataPlan
from labwright.record.schema.hypotheses import Effect, EffectDecision, HypothesisDecision
from labwright.record.schema.paper import AddendumEstimate, EstimateRequest, PaperDraft, SeedSet

# Effects, alternatives and rivals of hypotheses that are the difference of two cells: such a pair has one estimate,
# with its own interval.


def find_registered_pair(effect: Effect, plan: DataPlan) -> tuple[CellRef, CellRef] | None:
    """Return the cells a and b of an effect that is a - b; None for any other effect."""
    metric = find_effect_metric(effect, plan)
    cells = list_cells_read(effect.estimand, plan, metric)
    if len(cells) != 2 or classify_scale(effect.estimand) != "difference":
        return None
    first, second = cells
    slope = evaluate_estimand(effect.estimand, plan, metric, lambda place: float(place == first))
    return (first, second) if slope == 1 else (second, first) if slope == -1 else None


def list_measured_parts(decisions: Iterable[HypothesisDecision]) -> dict[str, EffectDecision]:
    """Return the effects, alternatives and rivals that have an estimate, by key: arms that no fresh seed measures leave
    some without."""
    return {key: part for one in decisions for key, part in one.parts_by_key.items() if part.mean is not None}


def is_effect_key(key: str) -> bool:
    """Return whether the key of an estimate is that of an effect of a hypothesis, not of an alternative or rival."""
    return key.rpartition("/")[2].isdecimal()


def list_registered_keys(parts: Mapping[str, EffectDecision], plan: DataPlan) -> dict[str, str]:
    """Return the keys of those of these measured parts that are a difference of two arms, by the key of the paired
    difference, in either order, that each replaces. Of several, that of an effect counts, otherwise the first."""
    found = dict[str, str]()
    for key in sorted(parts, key=is_effect_key, reverse=True):
        pair, metric = find_registered_pair(parts[key].effect, plan), find_effect_metric(parts[key].effect, plan).name
        for a, b in (pair, pair[::-1]) if pair is not None and pair[0].dataset == pair[1].dataset else ():
            found.setdefault(_format_difference_key(metric, a, b), key)
    return found


MAX_ESTIMATES = 8


class RequestedEstimate(NamedTuple):
    """A request and its estimate."""

    request: EstimateRequest
    found: EffectDecision
    plan: DataPlan
    """The plan with all measured arms."""

    @property
    def key(self) -> str:
        return f"estimate/{self.request.name}"

    @property
    def printed(self) -> dict[str, PrintedValue]:
        """Its printed forms by key with suffix."""
        return format_estimate(self.key, self.found, SIGNIFICANCE_LEVEL, self.plan)


def list_requests(state: RunState, draft: PaperDraft | None = None) -> tuple[EstimateRequest, ...]:
    """Return the requests of a draft (default: the paper's current one), and the estimates of the addenda."""
    draft = draft or (state.paper.drafts[-1].draft if state.paper.drafts else state.paper.reviewed_draft)
    return (*(draft.estimates if draft is not None else ()), *list_registered_estimates(state))


def list_registered_estimates(state: RunState) -> tuple[AddendumEstimate, ...]:
    """Return the estimates that addenda register."""
    return tuple(one for addendum in state.search.addenda for one in addendum.estimates)


def list_separating_keys(state: RunState) -> tuple[str, ...]:
    """Return the keys of the estimates that the paper's outline planned to separate explanations."""
    return state.paper.drafts[-1].draft.separating if state.paper.drafts else ()


def compute_requested_estimates(
    state: RunState, requests: Sequence[EstimateRequest]
) -> tuple[tuple[RequestedEstimate, ...], tuple[str, ...]]:
    """Return the requests that can be estimated, with their estimates, and the faults of the others, one line each."""
    times = Counter(one.name for one in requests)
    if state.search.data_plan is None or not requests:
        return (), ()
    plan = add_measured_arms(state, state.search.data_plan)
    faults = {
        one.name: fault
        for number, one in enumerate(requests, 1)
        if (fault := _find_fault(one, plan, number, times[one.name]))
    }
    claims = compute_paper_claims(state)
    differences = {one.key: one for one in compute_differences(state, claims)}
    registered = _read_registered_runs(state, claims)
    added = [read_values(state, one) for one in find_added_replicates(state)]
    runs: dict[SeedSet, list[ReplicateValues]] = {"registered": registered, "added": added, "all": registered + added}

    def estimate(one: EstimateRequest) -> RequestedEstimate:
        read = runs[one.seeds if isinstance(one, AddendumEstimate) else "registered"]
        found = estimate_over_seeds(plan, _to_effect(one), read)
        return _read_equal_difference(RequestedEstimate(one, found, plan), differences)

    found = [estimate(one) for one in requests if one.name not in faults]
    faults |= {one.request.name: one.found.why or "it has no interval" for one in found if one.found.low is None}
    return (
        tuple(one for one in found if one.request.name not in faults),
        tuple(f"estimates: {name!r} cannot be computed: {fault}" for name, fault in faults.items()),
    )


def _read_registered_runs(state: RunState, claims: Iterable[Claim]) -> list[ReplicateValues]:
    """Return the values of the deciding runs, with those of the paper's claims that only ablations measured by seed."""
    by_seed: dict[int, dict[tuple[str, str, str], float]] = {}
    for one in claims:
        for seed, value in zip(one.seeds, one.values, strict=True):
            by_seed.setdefault(seed, {})[one.dataset, one.condition, one.name] = value
    return [one._replace(values={**by_seed.get(one.seed, {}), **one.values}) for one in read_deciding_runs(state)]


def _read_equal_difference(one: RequestedEstimate, differences: Mapping[str, ClaimDifference]) -> RequestedEstimate:
    """Return an estimate over the deciding seeds with the interval of the paired difference of its cells, which also
    covers test examples; unchanged if there is none. `differences` have their keys."""
    pair = find_registered_pair(one.found.effect, one.plan)
    if pair is None or pair[0].dataset != pair[1].dataset:
        return one
    if not isinstance(one.request, AddendumEstimate) or one.request.seeds != "registered":
        return one
    metric = find_effect_metric(one.found.effect, one.plan).name
    for sign, (a, b) in ((1, pair), (-1, pair[::-1])):
        each = differences.get(_format_difference_key(metric, a, b))
        if each and {*each.seeds} == {*one.found.seeds} and each.low is not None and each.high is not None:
            low, high = sorted((sign * each.low, sign * each.high))
            return one._replace(found=one.found.model_copy(update={"low": low, "high": high}))
    return one


def _format_difference_key(metric: str, a: CellRef, b: CellRef) -> str:
    return f"{format_key('diff', a.dataset, metric, a.condition)}~{format_key(b.condition)}"


def find_registered_key(one: EstimateRequest, plan: DataPlan) -> tuple[str, int]:
    """Return the key of the registered effect, alternative or rival that a request asks for, and its sign: -1 if the
    request has the opposite one. Empty if there is none or the request is invalid."""
    asked = _to_effect(one)
    with suppress(EstimandError, RecursionError):
        for hypothesis in plan.hypotheses:
            for key, effect in list_effect_keys(hypothesis).items():
                if sign := _compare_effects(asked, effect, plan):
                    return key, sign
    return "", 0


def _compare_effects(one: Effect, other: Effect, plan: DataPlan) -> int:
    """Return 1 if two effects have the same estimand, -1 if they differ in sign alone, otherwise 0, judged from random
    values of their cells. Raises `EstimandError`."""
    metric = find_effect_metric(one, plan)
    cells = list_cells_read(one.estimand, plan, metric)
    if find_effect_metric(other, plan) != metric or {*cells} != {*list_cells_read(other.estimand, plan, metric)}:
        return 0
    rng = Random(0)
    drawn = [{place: rng.uniform(1.0, 2.0) for place in cells} for _ in range(16)]
    pairs = [[evaluate_estimand(each.estimand, plan, metric, at.__getitem__) for each in (one, other)] for at in drawn]
    return next((sign for sign in (1, -1) if all(isclose(a, sign * b, abs_tol=1e-9) for a, b in pairs)), 0)


def _to_effect(one: EstimateRequest) -> Effect:
    """Return the effect of a request; an estimate has no margin, so its direction and verdict mean nothing."""
    return Effect(estimand=one.estimand or "?", metric=one.metric, smallest=1.0, claim="positive")


def find_addendum_faults(
    estimates: Sequence[AddendumEstimate], plan: DataPlan, added: Mapping[str, str]
) -> dict[str, str]:
    """Return the estimates of an addendum that cannot be computed even if everything is measured, with the reasons.
    `added` has the arms of the addendum, with their titles."""
    arms = (Arm(name=name, title=title, role="ablation") for name, title in added.items())
    plan, times = plan.model_copy(update={"arms": (*plan.arms, *arms)}), Counter(one.name for one in estimates)
    return {one.name: fault for one in estimates if (fault := _find_fault(one, plan, 0, times[one.name]))}


def _find_fault(one: EstimateRequest, plan: DataPlan, number: int, times: int) -> str:
    """Return why a request cannot be estimated from any measurements; empty if it can be tried."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", one.name):
        return "its name must be lower-case words joined by hyphens, such as 'cost-of-noise'"
    if times > 1:
        return f"{times} estimates have this name: give each its own"
    if number > MAX_ESTIMATES and not isinstance(one, AddendumEstimate):
        return f"an outline may ask for {MAX_ESTIMATES} estimates: keep the most useful ones"
    try:
        effect = _to_effect(one)
        if not list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan)):
            return "it reads no cell"
    except EstimandError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    if isinstance(one, AddendumEstimate) and one.seeds != "registered":
        return ""
    registered, _ = find_registered_key(one, plan)
    # earlier drafts asked for rivals and alternatives
    return f"it is registered: use the keys of {registered}" if is_effect_key(registered) else ""
