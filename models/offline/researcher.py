"""The offline model: answers every role from the typed inputs alone, for the one study that it knows.

It never looks at a prompt, keeps no state between answers and draws nothing at random: the same inputs give the same
answer. What it does not know is which of its programs carry a mistake; it reads failures and findings as any model
must. Any other idea is refused with `CatalogueError`, in one line that says how to configure a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from labwright.models.backend import ModelRequest, OneModel, Reply
from labwright.models.errors import CatalogueError
from labwright.models.offline.assessing import influence, judge, prefer
from labwright.models.offline.citing import cite_ask, cite_select
from labwright.models.offline.coding import code
from labwright.models.offline.ideating import digest, idea, idea_of, idea_reflect, proposal, related_work
from labwright.models.offline.judging import compare, feedback, summary, vision
from labwright.models.offline.planning import ablation_plan, missing_ablations, plan
from labwright.models.offline.plotting import figure_review, figures, plot
from labwright.models.offline.protocol import prior_search, prior_work, protocol_review
from labwright.models.offline.reading import code_reader
from labwright.models.offline.reflecting import read, reflect, scope
from labwright.models.offline.repository import command, part_patch, parts, patch_check, repair
from labwright.models.offline.writing import outlined, sections
from labwright.record.nouns.decisions import Usage

NAME = "offline"

ANSWERS: dict[str, Callable[[Any], BaseModel]] = {
    "plan": plan,
    "code": code,
    "plot": plot,
    "vision": vision,
    "feedback": feedback,
    "compare": compare,
    "summary": summary,
    "figures": figures,
    "outline": outlined,
    "write": sections,
    "reflect": reflect,
    "scope": scope,
    "reader": read,
    "judge": judge,
    "influence": influence,
    "figure_review": figure_review,
    "ablation_plan": ablation_plan,
    "missing_ablations": missing_ablations,
    "cite_ask": cite_ask,
    "cite_select": cite_select,
    "idea": idea,
    "idea_reflect": idea_reflect,
    "related_work": related_work,
    "proposal": proposal,
    "idea_of": idea_of,
    "digest": digest,
    "prefer": prefer,
    "prior_search": prior_search,
    "prior_work": prior_work,
    "protocol_review": protocol_review,
    "command": command,
    "repair": repair,
    "parts": parts,
    "part_patch": part_patch,
    "patch_check": patch_check,
    "code_reader": code_reader,
}


class OfflineResearcher(OneModel):
    """A `Backend` that costs nothing and needs no network."""

    def __init__(self) -> None:
        super().__init__(NAME)

    async def answer(self, request: ModelRequest) -> Reply:
        """The answer of the role's function. Raises `CatalogueError` for what no study covers."""
        act = ANSWERS.get(request.role.name)
        if act is None:
            raise CatalogueError(f"the offline model plays no role '{request.role}'; it plays {', '.join(ANSWERS)}")
        return Reply(output=act(request.inputs), usage=Usage(usd=0.0), model=NAME)
