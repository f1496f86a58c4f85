"""The budget of a run before it begins: what is refused, and what each part may take."""

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
"""Seconds, beyond the sandbox's own, that code may run over its limit until its kernel is gone."""


def build_reservations(settings: Settings, gpus: Callable[[], int] | None = None) -> WorstCaseCosts:
    """The most that each part of a run with these settings may take. `gpus` tells those of one experiment, once there
    is a plan that may ask for more."""
    sandbox, documents = settings.sandbox, 0
    if settings.context is not None:
        try:
            documents = len(find_documents(settings.context)[0])
        except ContextError:  # the folder is gone, as it may be when a run is resumed
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
    """Refuse caps that cannot be kept, or that leave no room for one experiment. Raises `ModelConfigError`."""
    check_prices_known(settings)
    shares, caps = build_reservations(settings), settings.budget
    node = shares.compute_action_cost(ExpandTree(stage="preliminary", kind="draft", seed=0))
    cap = caps.find_exceeded_cap(shares.total_step_cost + node, shares.total_step_cost + node)
    if cap is not None:
        raise ModelConfigError(
            f"the budget of {cap} is too small for this configuration: plan, reports and paper are given "
            f"{caps.format_amount(shares.total_step_cost)} from the start, and one experiment "
            f"{caps.format_amount(node)}, at the "
            "worst; raise it, or lower models.output_retries, models.retries, models.roles.ROLE.max_tokens, "
            "paper.reflections or sandbox.timeout"
        )


def check_prices_known(settings: Settings) -> None:
    """Refuse a cap on what cannot be counted. Raises `ModelConfigError`."""
    caps = settings.budget
    if caps.gpu_hours is not None and settings.sandbox.device == "cpu":
        raise ModelConfigError(
            "budget.gpu_hours is set, and experiments run on the CPU: choose GPUs with --gpus, or "
            "set time_limit instead"
        )
    check_studied_llms(settings)
    unknown = list_unpriced_models(settings.models) if caps.usd is not None else ()
    if unknown:
        raise ModelConfigError(
            f"budget.usd is set, and the price of {', '.join(unknown)} is not known: set it in USD per million tokens, "
            f"as --set 'models.prices={{\"{unknown[0]}\": {{input: 3.0, output: 15.0}}}}', or set --budget-tokens"
        )


def check_studied_llms(settings: Settings) -> None:
    """Refuse subjects that cannot be asked, or not be counted. Raises `ModelConfigError`."""
    if settings.subjects:
        from labwright.models.studied_llms import check_subjects  # a provider's client is slow to import

        check_subjects(settings.subjects, settings.budget)


def open_studied_llms(settings: Settings, folder: Path, *, replay: bool = False) -> StudiedLlms | None:
    """The language models that experiments may ask, with their exchanges in a folder; `replay`: none is asked anew.

    Raises: `RecordError`.
    """
    if not settings.subjects:
        return None
    from labwright.models.studied_llms import StudiedLlms  # a provider's client is slow to import

    network = is_on_network(folder) if settings.network_folder is None else settings.network_folder
    return StudiedLlms(
        settings.subjects, settings.budget, LLMCallStore(folder / EXCHANGES_DB, network=network), replay=replay
    )


# --- models outside of a run ----------------------------------------------------------------------------------------


def open_model(settings: ModelSettings, log: Recorder | None = None) -> Models:
    """The model of some settings; what it answers is lost unless somebody writes it down, `log` says what it took.

    Raises: `ModelConfigError`.
    """
    return Models(open_backend(settings), log or MemoryLog(), settings, time.monotonic)


def open_budgeted_models(settings: Settings, log: Recorder, keep: KeepPrompt | None = None) -> Models:
    """The models of some settings within their budget; `log` says what answers took. Raises `ModelConfigError`."""
    return Models(
        open_backend(settings.models),
        log,
        settings.models,
        time.monotonic,
        budget=Budget(settings.budget, log, NoReservations(), settings.models),
        keep=keep,
    )


class NoReservations:
    """`models.budget.Shares` where there is no run: each call is reserved for itself, and nothing for later."""

    def compute_step_costs(self) -> Mapping[str, Cost]:
        return {}

    def compute_action_cost(self, action: SearchAction) -> Cost:
        return Cost()

    def compute_attempt_cost(self, limit: float) -> Cost:
        return Cost()
