"""The typed inputs and outputs of the two planners of ablations; `models/prompts/<role>.md` renders the inputs.

`ablation_plan` plans as an author does, before the last stage; `missing_ablations` reads the draft as a reviewer does.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models.circumstance import Circumstance
from models.roles import ParentBrief, Study, Unreported
from record.ablation import Ablation
from record.machine import Rate
from record.nouns.frozen import Frozen
from record.nouns.nodes import StageSummary
from record.nouns.papers import Draft
from record.trials import Trial


class AblationPlanInputs(Study):
    """For role `ablation_plan`; answers with `AblationPlan`. Validation results only."""

    method: ParentBrief = Field(description="the node that is ablated, with its code")
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Annotated[float, Circumstance(0.0)] = Field(description="wall-clock limit of one experiment")
    rate: Annotated[Rate | None, Circumstance(None)] = Field(
        default=None, description="how fast experiments run; None: not measured")
    earlier: tuple[StageSummary, ...] = Field(default=(), description="reports on the stages before")
    unreported: tuple[Unreported, ...] = Field(default=(), description="of these stages, those without a report")
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    written: tuple[str, ...] = Field(default=(), description="ablations that a person wrote and that run already")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


class RiskTested(Frozen):
    """A risk factor of the idea, and the ablation that tests it."""

    risk: int = Field(ge=1, description="its number in the list of risk factors")
    by: str = Field(default="", description="the name of a planned ablation; empty: none can")
    reason: str = Field(default="", description="why none does")


class AblationPlan(Frozen):
    """What is worth ablating, that first which carries most of the claim."""

    ablations: tuple[Ablation, ...] = Field(min_length=1)
    risks: tuple[RiskTested, ...] = Field(default=(), description="every risk factor of the idea once")


class MissingAblationsInputs(Study):
    """For role `missing_ablations`; answers with `MissingAblations`."""

    draft: Draft = Field(description="with the values that its macros print")
    trials: tuple[Trial, ...] = Field(description="what was planned, and what became of it")
    method_plan: str
    method_source: str
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Annotated[float, Circumstance(0.0)] = Field(description="wall-clock limit of one experiment")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the answer before")


class MissingAblations(Frozen):
    """What the draft's claims need and nobody measured; nothing, where nothing is missing."""

    ablations: tuple[Ablation, ...] = ()
    why: str = Field(min_length=1, description="why these, or why none is missing, in one or two sentences")
