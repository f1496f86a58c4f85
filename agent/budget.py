"""Budget checks before a run, and the table of its costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labwright.agent.settings import Settings
from labwright.models.budget import Budget, list_unpriced_models
from labwright.models.client import Models
from labwright.models.errors import ModelConfigError
from labwright.models.failover import open_backend
from labwright.models.ledger import KeepPrompt
from labwright.models.roles.study_plan import PLAN, REPOSITORY_PLAN
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog, Recorder
from labwright.record.llm_calls import EXCHANGES_FILE, LLMCallStore
from labwright.stages.cost_table import CostTable
from labwright.stages.user_documents import MAX_DOCUMENTS, ContextError, find_documents

if TYPE_CHECKING:
    from labwright.models.studied_llms import StudiedLlms

KERNEL_GRACE_SECONDS = 10.0
"""Seconds that code may exceed its limit before its kernel is gone, in addition to the sandbox's own grace."""


def build_cost_table(settings: Settings, gpus: Callable[[], int] | None = None) -> CostTable:
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
        paper=settings.effective_paper,
        node_seconds=sandbox.timeout,
        gpus=gpus or (lambda: sandbox.gpus_per_node if sandbox.device == "cuda" else 0),
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
