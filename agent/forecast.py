"""Forecast of a run from its data plan and its limits: model calls, tokens, USD, hours of code, disk.

All numbers of calls and experiments come from the table of `stages.cost_table`; `most` is the maximum that the limits
allow (transport and schema retries are additional).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from labwright.agent.settings import Settings, SettingsError, override_settings
from labwright.inspector.render import format_remaining_estimate
from labwright.inspector.status import PhaseSpending, RemainingEstimate
from labwright.models.budget import Budget, list_unpriced_models
from labwright.models.client import KeepPrompt, Models
from labwright.models.errors import ModelConfigError
from labwright.models.retry import open_backend
from labwright.models.roles.role import AnyRole
from labwright.models.roles.study_plan import PLAN, REPOSITORY_PLAN
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog, Recorder
from labwright.record.llm_calls import EXCHANGES_FILE, LLMCallStore
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.decisions import Cost
from labwright.record.schema.nodes import Phase
from labwright.search.design_forecast import forecast_design, read_cell_times, read_spreads
from labwright.search.settings import RETRY_FACTOR
from labwright.stages.cost_table import CostRow, CostTable, compute_spent_by_phase
from labwright.stages.user_documents import MAX_DOCUMENTS, ContextError, find_documents

if TYPE_CHECKING:
    from labwright.models.studied_llms import StudiedLlms


# Budget checks before a run, and the table of its costs.

KERNEL_GRACE_SECONDS = 10.0
"""Seconds that code may exceed its limit before its kernel is gone, in addition to the sandbox's own grace."""


def build_cost_table(settings: Settings, gpus: Callable[[], float] | None = None) -> CostTable:
    """Build the table of a run's costs. `gpus` returns the GPUs per experiment, once a plan is known."""
    sandbox, documents = settings.sandbox, 0
    if settings.context is not None:
        try:
            documents = len(find_documents(settings.context)[0])
        except ContextError:  # the folder may be missing when a run is resumed
            documents = MAX_DOCUMENTS
    return CostTable(
        models=settings.models,
        search=settings.search,
        paper=settings.paper,
        node_seconds=sandbox.timeout,
        gpus=gpus or (lambda: sandbox.gpus_per_node / sandbox.slots_per_gpu if sandbox.device == "cuda" else 0.0),
        grace_seconds=sandbox.grace + KERNEL_GRACE_SECONDS,
        documents=documents,
        planner=PLAN if settings.code.repository is None else REPOSITORY_PLAN,
        catalogues=bool(settings.literature.sources),
    )


def check_budget(settings: Settings) -> None:
    """Refuse caps that cannot be enforced or are too small for a report. Raises `ModelConfigError`."""
    check_prices_known(settings)
    least, caps = build_cost_table(settings).least_cost, settings.budget
    cap = caps.find_exceeded_cap(least, least)
    if cap is not None:
        raise ModelConfigError(
            f"the budget of {cap} cannot hold a report: a plan, one experiment and a short paper need at least "
            f"{caps.format_amount(least)}; raise the budget, or choose a cheaper model or a lower sandbox.timeout"
        )


def check_prices_known(settings: Settings) -> None:
    """Refuse a cap on a quantity that cannot be measured. Raises `ModelConfigError`."""
    caps = settings.budget
    if caps.gpu_hours is not None and settings.sandbox.device == "cpu":
        raise ModelConfigError(
            "budget.gpu_hours is set, but experiments run on the CPU: choose GPUs with --gpus, or "
            "set time_limit instead"
        )
    check_studied_llms(settings)
    unknown = list_unpriced_models(settings.models) if caps.usd is not None else ()
    if unknown:
        raise ModelConfigError(
            f"budget.usd is set, but the price of {', '.join(unknown)} is unknown: set it in USD per million tokens, "
            f"as --set 'models.prices={{\"{unknown[0]}\": {{input: 3.0, output: 15.0}}}}', or set --budget-tokens"
        )


def check_studied_llms(settings: Settings) -> None:
    """Refuse subjects that cannot be reached or whose cost cannot be counted. Raises `ModelConfigError`."""
    if settings.subjects:
        from labwright.models.studied_llms import check_subjects  # a provider's client is slow to import

        check_subjects(settings.subjects, settings.budget)


def open_studied_llms(settings: Settings, folder: Path, *, replay: bool = False) -> StudiedLlms | None:
    """Open the subjects of a run, with their exchanges stored in a folder; with `replay`, no new calls are made.

    Raises: `RecordError`.
    """
    if not settings.subjects:
        return None
    from labwright.models.studied_llms import StudiedLlms  # a provider's client is slow to import

    return StudiedLlms(settings.subjects, settings.budget, LLMCallStore(folder / EXCHANGES_FILE), replay=replay)


# --- models outside a run -------------------------------------------------------------------------------------------


def open_model(settings: ModelSettings, log: Recorder | None = None) -> Models:
    """Open the models of some settings without a budget. Usage is recorded in `log`; answers are kept only if
    recorded.

    Raises: `ModelConfigError`.
    """
    return Models(open_backend(settings), log or MemoryLog(), settings, time.monotonic)


def open_budgeted_models(settings: Settings, log: Recorder, keep: KeepPrompt | None = None) -> Models:
    """Open the models of some settings with their budget; usage is recorded in `log`. Raises `ModelConfigError`."""
    return Models(
        open_backend(settings.models),
        log,
        settings.models,
        time.monotonic,
        budget=Budget(settings.budget, log, settings.models),
        keep=keep,
    )


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


class PhaseCost(FrozenModel):
    """Estimated calls, tokens and USD of one phase; `usd` is None if a price is unknown."""

    phase: Phase
    calls: Amount
    tokens: Amount
    usd: Amount | None


class Forecast(FrozenModel):
    """Estimated cost of a run. `usd` is None if a price is unknown, `gpu_hours` if experiments use no GPU."""

    calls: tuple[RoleCalls, ...]
    phases: tuple[PhaseCost, ...]
    experiments: Amount
    input_tokens: Amount
    output_tokens: Amount
    usd: Amount | None = None
    code_hours: Amount
    gpu_hours: Amount | None
    disk_gb: Amount


def forecast_run(plan: DataPlan, datasets: Sequence[DatasetFacts], settings: Settings) -> Forecast:
    """Estimate the cost of a run with this plan and these settings."""
    table = build_cost_table(settings)
    rows = table.list_rows(plan)
    asked = [row for row in rows if row.role is not None and row.most]
    likely, most = _count_work(rows, None)
    ran = Amount(likely=likely, most=most)
    calls: list[RoleCalls] = []
    for role in dict.fromkeys(row.role for row in asked if row.role is not None):
        likely, most = _count_work(asked, role)
        calls.append(RoleCalls(role=role.name, likely=likely, most=most))
    limit, timeout = settings.time_limit * settings.search.num_workers, settings.sandbox.timeout
    hours = Amount(
        likely=min(limit, ran.likely * min(plan.expected_seconds, timeout)) / 3600,
        most=min(limit, ran.most * timeout * (1 + RETRY_FACTOR) / 2) / 3600,
    )
    gpus = table.gpus()
    gpu_hours = Amount(likely=gpus * hours.likely, most=gpus * hours.most)
    predicted = sum(
        (one.sizes.get("validation", 0) + one.sizes.get("test", 0)) * max(1, one.classes) for one in datasets
    )
    one_run = BYTES_PER_EXECUTION + 8 * predicted * len(plan.conditions)
    kept = BYTES_PER_RUN + sum(4 * sum(one.sizes.values()) * max(1, one.features) for one in datasets)
    phases = estimate_phases(table, rows)
    return Forecast(
        calls=tuple(calls),
        phases=phases,
        experiments=ran,
        input_tokens=_sum_tokens(asked, 0),
        output_tokens=_sum_tokens(asked, 1),
        usd=_sum_amounts([one.usd for one in phases]),
        code_hours=hours,
        gpu_hours=gpu_hours if settings.sandbox.device == "cuda" else None,
        disk_gb=Amount(likely=(kept + ran.likely * one_run) / 1e9, most=2 * (kept + ran.most * one_run) / 1e9),
    )


def estimate_phases(table: CostTable, rows: Sequence[CostRow]) -> tuple[PhaseCost, ...]:
    """Estimate the cost of the model calls of each phase that has any."""
    found: list[PhaseCost] = []
    phases: dict[Phase, None] = {row.phase: None for row in rows}
    for phase in phases:
        asked = [(row, row.role) for row in rows if row.phase == phase and row.role is not None and row.most]
        first = [(table.compute_typical_cost(role), row.likely) for row, role in asked]
        last = [(table.compute_typical_cost(role, dearest=True), row.most) for row, role in asked]
        priced = ([cost * number for cost, number in costs if cost] for costs in (first, last))
        likely, most = (sum(costs, start=Cost()) for costs in priced)
        unknown = any(cost is None for cost, _ in (*first, *last))
        if asked:
            found.append(
                PhaseCost(
                    phase=phase,
                    calls=Amount(likely=sum(number for _, number in first), most=sum(number for _, number in last)),
                    tokens=Amount(likely=likely.tokens, most=most.tokens),
                    usd=None if unknown else Amount(likely=likely.usd, most=most.usd),
                )
            )
    return tuple(found)


def _count_work(rows: Sequence[CostRow], role: AnyRole | None) -> tuple[int, int]:
    """Return the likely number and the maximum of a role's calls, or of executions (None)."""
    own = [row for row in rows if row.role is role]
    return round(sum(row.likely for row in own)), ceil(sum(row.most for row in own))


def _sum_tokens(rows: Sequence[CostRow], side: int) -> Amount:
    """Return the tokens of prompts (side 0) or answers (side 1)."""
    sizes = [(row, row.role.likely_tokens[side]) for row in rows if row.role is not None]
    return Amount(
        likely=round(sum(row.likely * size for row, size in sizes)),
        most=sum(ceil(row.most) * size for row, size in sizes),
    )


def _sum_amounts(amounts: Sequence[Amount | None]) -> Amount | None:
    """Return the sum; None if any term is unknown."""
    known = [one for one in amounts if one is not None]
    if len(known) < len(amounts):
        return None
    return Amount(likely=sum(one.likely for one in known), most=sum(one.most for one in known))


# --- the rest of a run ----------------------------------------------------------------------------------------------


def forecast_remaining(state: RunState, plan: DataPlan | None) -> str:
    """Describe the estimated cost from now to the end of a run; `plan`: its plan, if it is not recorded yet."""
    if plan is not None:
        state = replace(state, search=replace(state.search, data_plan=plan))
    found = estimate_remaining(state)
    return "" if found is None else format_remaining_estimate(found)


def estimate_remaining(state: RunState) -> RemainingEstimate | None:
    """Estimate the cost from now to the end of a run: the forecast for its settings minus the work done.

    None before there is a data plan, after the end, or if the settings cannot be read.
    """
    if state.started is None or state.search.data_plan is None or state.phase == "done":
        return None
    try:
        settings = override_settings(state.started.settings, state.overrides)
    except SettingsError:  # a run of another version
        return None
    table = build_cost_table(settings, lambda: state.gpus_per_experiment)
    rows, spent = table.list_rows(state.search.data_plan), compute_spent_by_phase(state)
    asked = [(row.role, number) for row, number in table.list_remaining(state) if row.role is not None]
    cost = sum((table.estimate_call(role, state) * number for role, number in asked), start=Cost())
    made = sum(len(node.attempts) for node in state.nodes.values())
    runs = max(0.0, sum(row.likely for row in rows if row.role is None) - made) * (state.limit_reason is None)
    gpu_hours = table.estimate_attempt(state).gpu_seconds * runs / 3600
    phases = estimate_phases(table, rows)
    known = all(one.usd is not None for one in phases)
    return RemainingEstimate(
        hours=_describe_hours(state, settings),
        calls=round(sum(number for _, number in asked)),
        usd=cost.usd if known else None,
        tokens=cost.tokens if settings.models.name != "offline" else 0,
        gpu_hours=gpu_hours if settings.sandbox.device == "cuda" else None,
        phases=tuple(
            PhaseSpending(phase=one.phase, planned=one.usd.likely, spent=spent.get(one.phase, Cost()).usd)
            for one in phases
            if one.usd is not None
        ),
    )


def _describe_hours(state: RunState, settings: Settings) -> tuple[str, ...]:
    """Return what the remaining hours can decide, in lines, until the lock; none without time or a claim."""
    left, plan = settings.time_limit - state.active_seconds, state.search.data_plan
    if left <= 0 or plan is None or state.search.current_lock is not None or not plan.confirmatory_effects:
        return ()
    return forecast_design(
        plan,
        read_cell_times(state.nodes.values()),
        settings.search,
        left,
        sizes={one.name: one.sizes for one in state.search.datasets},
        spreads=read_spreads(state),
    ).lines
