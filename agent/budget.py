"""The budget of a run before it begins: what is refused, and what each part may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labwright.agent.settings import Settings
from labwright.models.budget import Budget, unpriced
from labwright.models.client import Models
from labwright.models.errors import ModelConfigError
from labwright.models.failover import open_backend
from labwright.models.ledger import Keep
from labwright.models.roles.planning import PLAN, REPOSITORY_PLAN
from labwright.models.settings import ModelSettings
from labwright.record.exchanges import FILE, Exchanges
from labwright.record.log import MemoryLog, Recorder
from labwright.record.network import on_network
from labwright.record.nouns.decisions import Action, Expand, Spending
from labwright.stages.documents import MOST_DOCUMENTS, ContextError, documents_in
from labwright.stages.settings import PRIOR_PAPERS
from labwright.stages.shares import RunShares

if TYPE_CHECKING:
    from labwright.models.subjects import SubjectModels

GRACE = 10.0
"""Seconds, beyond the sandbox's own, that code may run over its limit until its kernel is gone."""


def shares_of(settings: Settings, gpus: Callable[[], int] | None = None) -> RunShares:
    """The most that each part of a run with these settings may take. `gpus` tells those of one experiment, once there
    is a plan that may ask for more."""
    sandbox, documents = settings.sandbox, 0
    if settings.context is not None:
        try:
            documents = len(documents_in(settings.context)[0])
        except ContextError:  # the folder is gone, as it may be when a run is resumed
            documents = MOST_DOCUMENTS
    return RunShares(
        models=settings.models,
        search=settings.search,
        paper=settings.writing,
        node_seconds=sandbox.timeout,
        gpus=gpus or (lambda: sandbox.gpus_per_node if sandbox.device == "cuda" else 0),
        grace=sandbox.grace + GRACE,
        documents=documents,
        planner=PLAN if settings.code.repository is None else REPOSITORY_PLAN,
        prior=PRIOR_PAPERS if settings.literature.sources else min(PRIOR_PAPERS, documents),
    )


def check_budget(settings: Settings) -> None:
    """Refuse caps that cannot be kept, or that leave no room for one experiment. Raises `ModelConfigError`."""
    check_priced(settings)
    shares, caps = shares_of(settings), settings.budget
    node = shares.of(Expand(stage="preliminary", kind="draft", seed=0))
    cap = caps.excess(shares.paper_share + node, shares.paper_share + node)
    if cap is not None:
        raise ModelConfigError(
            f"the budget of {cap} is too small for this configuration: plan, reports and paper are given "
            f"{caps.in_words(shares.paper_share)} from the start, and one experiment {caps.in_words(node)}, at the "
            "worst; raise it, or lower models.output_retries, models.retries, models.roles.ROLE.max_tokens, "
            "paper.reflections or sandbox.timeout"
        )


def check_priced(settings: Settings) -> None:
    """Refuse a cap on what cannot be counted. Raises `ModelConfigError`."""
    caps = settings.budget
    if caps.gpu_hours is not None and settings.sandbox.device == "cpu":
        raise ModelConfigError(
            "budget.gpu_hours is set, and experiments run on the CPU: choose GPUs with --gpus, or "
            "set time_limit instead"
        )
    check_subjects(settings)
    unknown = unpriced(settings.models) if caps.usd is not None else ()
    if unknown:
        raise ModelConfigError(
            f"budget.usd is set, and the price of {', '.join(unknown)} is not known: set it in USD per million tokens, "
            f"as --set 'models.prices={{\"{unknown[0]}\": {{input: 3.0, output: 15.0}}}}', or set --budget-tokens"
        )


def check_subjects(settings: Settings) -> None:
    """Refuse subjects that cannot be asked, or not be counted. Raises `ModelConfigError`."""
    if settings.subjects:
        from labwright.models.subjects import check_subjects  # a provider's client is slow to import

        check_subjects(settings.subjects, settings.budget)


def subjects_of(settings: Settings, folder: Path, *, replay: bool = False) -> SubjectModels | None:
    """The language models that experiments may ask, with their exchanges in a folder; `replay`: none is asked anew.

    Raises: `RecordError`.
    """
    if not settings.subjects:
        return None
    from labwright.models.subjects import SubjectModels  # a provider's client is slow to import

    network = on_network(folder) if settings.network_folder is None else settings.network_folder
    return SubjectModels(settings.subjects, settings.budget, Exchanges(folder / FILE, network=network), replay=replay)


# --- models outside of a run ----------------------------------------------------------------------------------------


def open_model(settings: ModelSettings, log: Recorder | None = None) -> Models:
    """The model of some settings; what it answers is lost unless somebody writes it down, `log` says what it took.

    Raises: `ModelConfigError`.
    """
    return Models(open_backend(settings), log or MemoryLog(), settings, time.monotonic)


def models_of(settings: Settings, log: Recorder, keep: Keep | None = None) -> Models:
    """The models of some settings within their budget; `log` says what answers took. Raises `ModelConfigError`."""
    return Models(
        open_backend(settings.models),
        log,
        settings.models,
        time.monotonic,
        budget=Budget(settings.budget, log, NoShares(), settings.models),
        keep=keep,
    )


class NoShares:
    """`models.budget.Shares` where there is no run: each call is reserved for itself, and nothing for later."""

    def steps(self) -> Mapping[str, Spending]:
        return {}

    def of(self, action: Action) -> Spending:
        return Spending()

    def attempt(self, limit: float) -> Spending:
        return Spending()
