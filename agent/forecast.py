"""Forecast of a run from its data plan and its limits: model calls, tokens, USD, hours of code, disk.

`likely` is based on measured runs of this kind, where available; `most` is the maximum that the limits allow (transport
and schema retries are additional). Both are estimates: token counts come from rendered prompts and one language model's
run, and a reasoning model writes several times as many tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from labwright.agent.settings import Settings
from labwright.models import prices
from labwright.models.roles import ROLES
from labwright.models.roles.injection_reader import MAX_CALLS
from labwright.models.roles.paper_writing import MAX_SECTIONS
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import MIN_REPLICATES
from labwright.record.estimands import list_main_arms
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.decisions import TokenUsage
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import STAGES
from labwright.record.tuning_results import list_trial_cells
from labwright.search.policy import MAX_LATE_DEBUGS
from labwright.search.settings import RETRY_FACTOR
from labwright.search.stage_snapshot import MAX_COMPARISONS
from labwright.stages.settings import (
    MAX_ABLATION_PLAN_CALLS,
    MAX_AMEND_CALLS,
    MAX_OUTLINE_CALLS,
    MAX_PLAN_CALLS,
    MAX_PRIOR_PAPERS,
    MAX_REVIEW_CALLS,
    MAX_REVISION_ROUNDS,
)

DEBUGS_PER_DRAFT = 0.6
"""Average number of debug nodes per first draft: three of five drafts fail in the offline study."""
FAILURE_RATE = 0.15
"""Share of search nodes that fail or are unsound, so that they need no figure review and no verdict."""
USUAL_SECTIONS = 7
"""Sections of a paper."""
USUAL_MISSING_ABLATIONS = 1
"""Ablations that a reviewer requests, if any: the median of AblationBench, table 2."""
USUAL_REPLOTS = 0.3
"""Additional plotting attempts per node: 2 of 16 in offline runs, 2 of 3 with a language model."""
BYTES_PER_EXECUTION = 750_000
"""Source, notebook, figures and log of one execution, and files of its cells."""
BYTES_PER_RUN = 4_000_000
"""Paper, its LaTeX rounds, and the log."""


class Amount(FrozenModel):
    """An estimate and its upper bound."""

    likely: float
    most: float


class RoleCalls(FrozenModel):
    """Estimated calls of one role."""

    role: str
    likely: int
    most: int


class Forecast(FrozenModel):
    """Estimated cost of a run. `usd` is None if a price is unknown, `gpu_hours` if experiments use no GPU."""

    calls: tuple[RoleCalls, ...]
    experiments: Amount
    input_tokens: Amount
    output_tokens: Amount
    usd: Amount | None = None
    code_hours: Amount
    gpu_hours: Amount | None
    disk_gb: Amount


def forecast_run(plan: DataPlan, datasets: Sequence[DatasetFacts], settings: Settings) -> Forecast:
    """Estimate the cost of a run with this plan and these settings."""
    (likely, ran), (most, most_ran) = (_estimate_calls(settings, plan, most=at_most) for at_most in (False, True))
    likely, most = (
        {role: round(number) for role, number in likely.items()},
        {role: ceil(number) for role, number in most.items()},
    )
    limit, timeout = settings.time_limit * settings.search.num_workers, settings.sandbox.timeout
    hours = Amount(
        likely=min(limit, ran * min(plan.expected_seconds, timeout)) / 3600,
        most=min(limit, most_ran * timeout * (1 + RETRY_FACTOR) / 2) / 3600,
    )
    gpus = settings.sandbox.gpus_per_node
    read, written = (
        Amount(
            likely=sum(number * ROLES[role].typical_tokens[side] for role, number in likely.items()),
            most=sum(number * ROLES[role].typical_tokens[side] for role, number in most.items()),
        )
        for side in (0, 1)
    )
    usd, most_usd = estimate_usd(likely, settings.models), estimate_usd(most, settings.models, dearest=True)
    predicted = sum(
        (one.sizes.get("validation", 0) + one.sizes.get("test", 0)) * max(1, one.classes) for one in datasets
    )
    one_run = BYTES_PER_EXECUTION + 8 * predicted * len(plan.conditions)
    kept = BYTES_PER_RUN + sum(4 * sum(one.sizes.values()) * max(1, one.features) for one in datasets)
    return Forecast(
        calls=tuple(RoleCalls(role=role, likely=likely[role], most=most[role]) for role in likely),
        experiments=Amount(likely=round(ran), most=ceil(most_ran)),
        input_tokens=read,
        output_tokens=written,
        usd=None if usd is None or most_usd is None else Amount(likely=usd, most=most_usd),
        code_hours=hours,
        gpu_hours=(
            Amount(likely=gpus * hours.likely, most=gpus * hours.most) if settings.sandbox.device == "cuda" else None
        ),
        disk_gb=Amount(likely=(kept + ran * one_run) / 1e9, most=2 * (kept + most_ran * one_run) / 1e9),
    )


def estimate_usd(calls: Mapping[str, float], models: ModelSettings, *, dearest: bool = False) -> float | None:
    """Estimate the cost of a typical number of calls per role with the first or the most expensive model; None if a
    price is unknown."""
    total = 0.0
    for role, number in calls.items():
        read, written = ROLES[role].typical_tokens
        costs = [
            prices.compute_usd(one, TokenUsage(input_tokens=read, output_tokens=written))
            for one in models.list_candidates(ROLES[role])
        ]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        if known:
            total += number * (max(known) if dearest else known[0])
    return total


def count_trials(plan: DataPlan) -> float:
    """Count the trials needed to tune every arm once, in units of experiments that measure every cell of the plan."""
    if plan.tuning.currency == "seconds":
        return len(plan.tuned_arms) * plan.tuning.budget / plan.expected_seconds
    cells = len(list_main_arms(plan)) * len(plan.level_names) * len(plan.datasets)
    return plan.tuning.budget * sum(len(list_trial_cells(plan, arm, seed=0)) for arm in plan.tuned_arms) / cells


def _estimate_calls(settings: Settings, plan: DataPlan, *, most: bool) -> tuple[dict[str, float], float]:
    """Estimate the number of model calls by role and of executions of code, either the likely number or the maximum
    that the limits allow.

    Replicates and trials need no calls, since they run their parent's code. The tuned node, the winner and every
    working ablation are replicated; the replicates of the winner are the fresh seeds for confirmation, drawn by one
    aggregate. No model reviews the figures of drafts. Arms are tuned in stage 2, and again if the main experiments
    changed their code. In the maximum, each execution has a second attempt.
    """
    search, paper = settings.search, settings.effective_paper
    nodes = {stage: search.find_limits(stage).nodes for stage in STAGES}
    seeds = {stage: search.count_seeds(stage) for stage in STAGES}
    aggregates, planned = int(seeds["agenda"] > 0), search.planned_ablations
    if most:
        missing, failed, replots, tries = paper.missing_ablations, 0.0, paper.replots, paper.replots + 1
        seeds["agenda"] = max(seeds["agenda"], search.max_seeds)
    else:
        missing, failed, replots = (
            min(USUAL_MISSING_ABLATIONS, paper.missing_ablations),
            FAILURE_RATE,
            min(USUAL_REPLOTS, paper.replots),
        )
        tries = min(2, paper.replots + 1)
        nodes["preliminary"] = min(nodes["preliminary"], round((1 + DEBUGS_PER_DRAFT) * search.count_drafts(plan.open)))
        if planned:
            nodes["ablation"] = min(nodes["ablation"], round((1 + FAILURE_RATE) * planned))
    tuned = (1 + most) * bool(plan.tuned_arms)  # nodes with the chosen settings need no new code
    nodes["tuning"] = nodes["tuning"] if most and tuned else 0
    written = sum(nodes.values()) + missing * (1 + MAX_LATE_DEBUGS * most)
    searched = written + tuned
    works = searched * (1 - failed)
    plots = aggregates + (works + aggregates * most) * replots
    variants = min(seeds["agenda"], max(seeds["ablation"], MIN_REPLICATES))
    ablated = round(nodes["ablation"] * (1 - failed)) + missing
    replicates = sum(seeds[stage] for stage in STAGES[:-1])
    if search.count_seeds("ablation"):
        replicates += ablated * variants
    reflections = (
        paper.reflections + MAX_REVISION_ROUNDS * bool(missing) if most else min(2, paper.reflections) + missing
    )
    citations = paper.citation_rounds if most else min(2, paper.citation_rounds)
    plannings = MAX_ABLATION_PLAN_CALLS if most else 1
    read = (MAX_PRIOR_PAPERS if most else round(MAX_PRIOR_PAPERS / 2)) * bool(
        settings.literature.sources or settings.context
    )
    calls = {
        "prior_search": bool(settings.literature.sources),
        "prior_work": read,
        "plan": MAX_PLAN_CALLS + MAX_AMEND_CALLS if most else 2,
        "protocol_review": MAX_REVIEW_CALLS,
        "code": written,
        "plot": plots,
        "vision": works - nodes["preliminary"] * (1 - failed) + plots + tries,
        "feedback": works,
        "compare": MAX_COMPARISONS * (len(STAGES) - 1) if most else 1,
        "summary": len(STAGES),
        "figures": tries,
        "outline": MAX_OUTLINE_CALLS if most else 1,
        "write": paper.count_writer_calls(MAX_SECTIONS if most else USUAL_SECTIONS),
        "reflect": reflections,
        "influence": MAX_CALLS if most else 2,
        "judge": 1,
        "figure_review": reflections,
        "scope": reflections + 1,
        "reader": reflections + 1,
        "ablation_plan": plannings * bool(planned),
        "missing_ablations": plannings * bool(paper.missing_ablations),
        "cite_ask": citations,
        "cite_select": citations,
        "code_reader": 1 + ablated,
    }
    return calls, (searched + replicates + count_trials(plan) * (1 + most)) * (1 + most)
