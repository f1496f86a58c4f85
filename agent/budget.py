"""The budget of a run before it begins: what is refused, and what each part may take."""

from __future__ import annotations

from agent.settings import Settings
from models.budget import unpriced
from models.errors import ModelConfigError
from record.nouns.decisions import Expand
from stages.documents import MOST_DOCUMENTS, ContextError, documents_in
from stages.shares import RunShares

GRACE = 10.0
"""Seconds, beyond the sandbox's own, that code may run over its limit until its kernel is gone."""


def shares_of(settings: Settings) -> RunShares:
    """The most that each part of a run with these settings may take."""
    sandbox, documents = settings.sandbox, 0
    if settings.context is not None:
        try:
            documents = len(documents_in(settings.context)[0])
        except ContextError:  # the folder is gone, as it may be when a run is resumed
            documents = MOST_DOCUMENTS
    return RunShares(
        models=settings.models, search=settings.search, paper=settings.writing, node_seconds=sandbox.timeout,
        gpus=sandbox.gpus_per_node if sandbox.device == "cuda" else 0, grace=sandbox.grace + GRACE,
        documents=documents)


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
            "paper.reflections or sandbox.timeout")


def check_priced(settings: Settings) -> None:
    """Refuse a cap on what cannot be counted. Raises `ModelConfigError`."""
    caps = settings.budget
    if caps.gpu_hours is not None and settings.sandbox.device == "cpu":
        raise ModelConfigError("budget.gpu_hours is set, and experiments run on the CPU: choose GPUs with --gpus, or "
                               "set time_limit instead")
    unknown = unpriced(settings.models) if caps.usd is not None else ()
    if unknown:
        raise ModelConfigError(
            f"budget.usd is set, and the price of {', '.join(unknown)} is not known: set it in USD per million tokens, "
            f"as --set 'models.prices={{\"{unknown[0]}\": {{input: 3.0, output: 15.0}}}}', or set --budget-tokens")
