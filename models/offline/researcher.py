"""The offline model: answers every role from the typed inputs alone, for the one study that it knows.

It never reads a prompt, keeps no state between answers and draws nothing at random: the same inputs give the same
answer. It does not know which of its programs contain a mistake; it reads failures and findings as any model must.
Any other idea is refused with `CatalogueError`, in one line that says how to configure a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import CatalogueError
from labwright.models.offline.experiment_code import answer_code, answer_figures, answer_plot
from labwright.models.offline.judgements import (
    CONFIGURE_MODEL_HINT,
    UNREAD_ANSWERS,
    answer_claim_reader,
    answer_feedback,
    answer_setup_reader,
    answer_summary,
    answer_vision,
)
from labwright.models.offline.paper_writing import answer_outline, answer_reflect, answer_write
from labwright.models.offline.planning import answer_ablation_plan, answer_digest, answer_missing_ablations, answer_plan
from labwright.models.offline.repository_author import answer_coder
from labwright.record.schema.decisions import TokenUsage

OFFLINE_MODEL_NAME = "offline"


def _always(answer: BaseModel) -> Callable[[Any], BaseModel]:
    return lambda _: answer


ANSWER_FUNCTIONS: dict[str, Callable[[Any], BaseModel]] = {
    **{role: _always(answer) for role, answer in UNREAD_ANSWERS.items()},
    "plan": answer_plan,
    "code": answer_code,
    "plot": answer_plot,
    "vision": answer_vision,
    "feedback": answer_feedback,
    "summary": answer_summary,
    "figures": answer_figures,
    "outline": answer_outline,
    "write": answer_write,
    "reflect": answer_reflect,
    "claim_reader": answer_claim_reader,
    "second_claim_reader": answer_claim_reader,
    "setup_reader": answer_setup_reader,
    "ablation_plan": answer_ablation_plan,
    "missing_ablations": answer_missing_ablations,
    "digest": answer_digest,
}


class OfflineResearcher(Backend):
    """A `Backend` that costs nothing and needs no network."""

    def __init__(self) -> None:
        super().__init__(OFFLINE_MODEL_NAME)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the answer of the role's function. Raises `CatalogueError` for anything that no study covers."""
        if request.conversation is not None:
            call = answer_coder(request.inputs, request.conversation)  # pyrefly: ignore
            return Reply(output=call, usage=TokenUsage(usd=0.0), model=OFFLINE_MODEL_NAME)
        act = ANSWER_FUNCTIONS.get(request.role.name)
        if act is None:
            raise CatalogueError(
                f"the offline model cannot read papers, so it has no answer of role '{request.role}': "
                f"{CONFIGURE_MODEL_HINT}"
            )
        return Reply(output=act(request.inputs), usage=TokenUsage(usd=0.0), model=OFFLINE_MODEL_NAME)
