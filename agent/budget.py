"""Budget checks before a run, and the worst-case cost of each part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
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
from labwright.record.jsonl_log import is_on_network
from labwright.record.llm_calls import EXCHANGES_DB, LLMCallStore
from labwright.record.schema.decisions import Cost, ExpandTree, SearchAction
from labwright.stages.settings import MAX_PRIOR_PAPERS
from labwright.stages.user_documents import MAX_DOCUMENTS, ContextError, find_documents
from labwright.stages.worst_case_cost import WorstCaseCosts

if TYPE_CHECKING:
    from labwright.models.studied_llms import StudiedLlms

KERNEL_GRACE_SECONDS = 10.0
"""Seconds that code may exceed its limit before its kernel is gone, in addition to the sandbox's own grace."""


def build_reservations(settings: Settings, gpus: Callable[[], int] | None = None) -> WorstCaseCosts:
    """Compute the worst-case cost of each part of a run. `gpus` returns the number of GPUs per experiment; it is
    called once a plan is known.
    """
    sandbox, documents = settings.sandbox, 0
    if settings.context is not None:
        try:
            documents = len(find_documents(settings.context)[0])
        except ContextError:  # the folder may be missing when a run is resumed
            documents = MAX_DOCUMENTS
    return WorstCaseCosts(
        models=settings.models,
        search=settings.search,
        paper=settings.effective_paper,
        node_seconds=sandbox.timeout,
        gpus=gpus or (lambda: sandbox.gpus_per_node if sandbox.device == "cuda" else 0),
        grace_seconds=sandbox.grace + KERNEL_GRACE_SECONDS,
        documents=documents,
        planner=PLAN if settings.code.repository is None else REPOSITORY_PLAN,
        prior_papers=MAX_PRIOR_PAPERS if settings.literature.sources else min(MAX_PRIOR_PAPERS, documents),
    )


def check_budget(settings: Settings) -> None:
    """Refuse caps that cannot be enforced or are too small for one experiment. Raises `ModelConfigError`."""
    check_prices_known(settings)
    shares, caps = build_reservations(settings), settings.budget
    node = shares.compute_action_cost(ExpandTree(stage="preliminary", kind="draft", seed=0))
    cap = caps.find_exceeded_cap(shares.total_step_cost + node, shares.total_step_cost + node)
    if cap is not None:
        raise ModelConfigError(
            f"the budget of {cap} is too small for this configuration: plan, reports and paper reserve "
            f"{caps.format_amount(shares.total_step_cost)} up front, and one experiment takes up to "
            f"{caps.format_amount(node)}; "
            "raise the budget, or lower models.output_retries, models.retries, models.roles.ROLE.max_tokens, "
            "paper.reflections or sandbox.timeout"
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

    network = is_on_network(folder) if settings.network_folder is None else settings.network_folder
    return StudiedLlms(
        settings.subjects, settings.budget, LLMCallStore(folder / EXCHANGES_DB, network=network), replay=replay
    )


# --- models outside a run -------------------------------------------------------------------------------------------


def open_model(settings: ModelSettings, log: Recorder | None = None) -> Models:
    """Open the models of some settings without a budget. Usage is recorded in `log`; answers are not kept unless
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
        budget=Budget(settings.budget, log, NoReservations(), settings.models),
        keep=keep,
    )


class NoReservations:
    """`models.budget.CostReservations` without a run: the cost of each call is reserved separately, and nothing is
    reserved for later steps.
    """

    def compute_step_costs(self) -> Mapping[str, Cost]:
        return {}

    def compute_action_cost(self, action: SearchAction) -> Cost:
        return Cost()

    def compute_attempt_cost(self, limit: float) -> Cost:
        return Cost()
