"""Estimates that the outline of a paper asks for: any estimand over measured cells, computed as exploratory.

A value is computed for every seed that decides the hypotheses; its 95 % interval covers seeds, is not corrected for the
number of requests, and does not cover test examples. Registered effects may not be requested again: their intervals are
corrected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL
from labwright.record.claims.formatting import format_estimate
from labwright.record.claims.hypothesis_tests import decide_from_runs, read_deciding_runs
from labwright.record.estimands import EstimandError, find_effect_metric, list_cells_read, parse_estimand
from labwright.record.printed_value import PrintedValue
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis
from labwright.record.schema.paper import EstimateRequest

MAX_ESTIMATES = 8
"""Maximum number of estimates that an outline may ask for."""


class RequestedEstimate(NamedTuple):
    """A request and its estimate."""

    request: EstimateRequest
    found: EffectDecision
    plan: DataPlan

    @property
    def key(self) -> str:
        return f"estimate/{self.request.name}"

    @property
    def printed(self) -> dict[str, PrintedValue]:
        """Its printed forms by key with suffix."""
        return format_estimate(self.key, self.found, SIGNIFICANCE_LEVEL, self.plan)


def list_requests(state: RunState) -> tuple[EstimateRequest, ...]:
    """Return the requests of the paper's current draft."""
    return state.drafts[-1].draft.estimates if state.drafts else ()


def compute_requested_estimates(
    state: RunState, requests: Sequence[EstimateRequest]
) -> tuple[tuple[RequestedEstimate, ...], tuple[str, ...]]:
    """Return the requests that can be estimated, with their estimates, and the faults of the others, one line each."""
    plan, times = state.data_plan, Counter(one.name for one in requests)
    if plan is None or not requests:
        return (), ()
    faults = {
        one.name: fault
        for number, one in enumerate(requests, 1)
        if (fault := _find_fault(one, plan, number, times[one.name]))
    }
    asked = [one for one in requests if one.name not in faults]
    decisions = decide_from_runs(
        plan.model_copy(update={"hypotheses": tuple(map(_to_hypothesis, asked))}),
        read_deciding_runs(state),
        confirmed=False,
    )
    found = [RequestedEstimate(one, decided.parts[0], plan) for one, decided in zip(asked, decisions, strict=True)]
    faults |= {one.request.name: one.found.why or "it has no interval" for one in found if one.found.low is None}
    return (
        tuple(one for one in found if one.request.name not in faults),
        tuple(f"estimates: {name!r} cannot be computed: {fault}" for name, fault in faults.items()),
    )


def _to_hypothesis(one: EstimateRequest) -> Hypothesis:
    return Hypothesis(
        id=one.name,
        statement=one.purpose or one.name,
        effects=(_to_effect(one),),
        reason="exploratory",
        unit="seeds",
        confirmatory=False,
    )


def _to_effect(one: EstimateRequest) -> Effect:
    """Return the effect of a request; an estimate has no margin, so its direction and verdict mean nothing."""
    return Effect(estimand=one.estimand or "?", metric=one.metric, smallest=1.0, claim="positive")


def _find_fault(one: EstimateRequest, plan: DataPlan, number: int, times: int) -> str:
    """Return why a request cannot be estimated from any measurements; empty if it can be tried."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", one.name):
        return "its name must be lower-case words joined by hyphens, such as 'cost-of-noise'"
    if times > 1:
        return f"{times} estimates have this name: give each its own"
    if number > MAX_ESTIMATES:
        return f"an outline may ask for {MAX_ESTIMATES} estimates: keep the most useful ones"
    try:
        effect = _to_effect(one)
        metric, expression = find_effect_metric(effect, plan), parse_estimand(effect.estimand)
        if not list_cells_read(effect.estimand, plan, metric):
            return "it reads no cell"
    except EstimandError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    for hypothesis in plan.hypotheses:
        for k, other in enumerate(hypothesis.effects, 1):
            if parse_estimand(other.estimand) == expression and find_effect_metric(other, plan) == metric:
                return f"it is registered: use the keys of hypothesis/{hypothesis.id}/{k}"
    return ""
