"""Planning: the data plan of a study (`plan`) and its ablations.

`ablation_plan` plans as an author does, before the last stage; `missing_ablations` reads the draft as a reviewer does.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models.roles.coding import Measured, NodeBrief, Seconds, Study, Unreported
from models.roles.role import Circumstance, Role
from record.ablation import Ablation
from record.ablation_results import AblationResult
from record.nouns.data import DataPlan, Needs, OnHub
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from record.nouns.nodes import StageSummary
from record.nouns.papers import Draft
from record.nouns.prior import PriorPaper, PriorRow
from record.nouns.protocol import FindingAnswer, ProtocolFinding


class CatalogueEntry(Frozen):
    """A dataset that can be had."""

    name: str
    title: str
    examples: int
    features: int
    classes: int
    sizes: dict[str, int] = Field(default={}, description="examples by split; empty: not known before it is loaded")
    own: bool = Field(default=False, description="brought by the person who runs us; the fields below are of such data")
    task: str = Field(default="", description="classification, regression, or none: a folder without known labels")
    target: str = ""
    columns: tuple[str, ...] = Field(default=(), description="features before any encoding; of a folder, file endings")
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] = Field(default=(), description="of one example, where it is no plain row of features")
    missing: dict[str, int] = Field(default_factory=dict, description="column -> rows without a value")
    split_rule: str = ""
    form: str = Field(default="", description="what an example holds, in words, where it is no row of numbers")
    warnings: tuple[str, ...] = ()
    meta: dict[str, tuple[str, ...]] = Field(default={}, description="columns that metrics may go by -> their values")
    scorer: str = Field(default="", description="what a frozen scorer of the user's computes there, in words")


class SubjectEntry(Frozen):
    """A language model that experiments may ask."""

    name: str
    model: str
    description: str = ""
    context_tokens: int | None = None
    price: str = ""
    calls: str = Field(default="", description="how many may be under way, and go out in a minute")


class PlanInputs(Frozen):
    idea: Idea
    catalogue: tuple[CatalogueEntry, ...]
    subjects: tuple[SubjectEntry, ...] = ()
    subject_budget: Annotated[str, Circumstance("")] = Field(default="", description="what they may take together")
    metrics: tuple[str, ...] = Field(description="metrics that we compute from submitted predictions")
    node_seconds: Seconds
    device: Annotated[str, Circumstance("")] = "cpu"
    room: Annotated[Needs | None, Circumstance(None)] = Field(default=None, description="what a cell can have at most")
    retry_seconds: Seconds = 0.0
    run_seconds: Annotated[float, Circumstance(0.0)] = Field(default=0.0, description="limit of the run; 0: unknown")
    rate: Measured = None
    shares: dict[str, float] = Field(default_factory=dict, description="share of a dataset's examples by split")
    packages: tuple[str, ...] = Field(default=(), description="that the plan may ask for; none: what is there must do")
    context: tuple[str, ...] = Field(default=(), description="lines from the user's own documents, with their places")
    hub: tuple[OnHub, ...] = Field(default=(), description="models and datasets of the hub that may be asked for")
    prior: tuple[PriorPaper, ...] = Field(default=(), description="what the closest papers used")
    common: tuple[PriorRow, ...] = Field(default=(), description="what two of them or more used")
    before: DataPlan | None = Field(default=None, description="the plan handed in before")
    findings: tuple[ProtocolFinding, ...] = Field(default=(), description="what a reviewer found wrong with that plan")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


class AmendedPlan(DataPlan):
    """A plan after its review, with an answer to each finding."""

    answers: tuple[FindingAnswer, ...] = Field(default=(), description="each finding once, by its number")


def _answer(inputs: PlanInputs) -> type[DataPlan]:
    return AmendedPlan if inputs.findings else DataPlan


PLAN = Role("plan", PlanInputs, DataPlan, prompt_tokens=16_000, usual=(4500, 1500), answer=_answer)


class AblationPlanInputs(Study):
    """For role `ablation_plan`; answers with `AblationPlan`. Validation results only."""

    method: NodeBrief = Field(description="the node that is ablated, with its code")
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Seconds
    rate: Measured = None
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


ABLATION_PLAN = Role("ablation_plan", AblationPlanInputs, AblationPlan, prompt_tokens=20_000, usual=(5500, 1200))


class MissingAblationsInputs(Study):
    draft: Draft = Field(description="with the values that its macros print")
    trials: tuple[AblationResult, ...] = Field(description="what was planned, and what became of it")
    method_plan: str
    method_code: dict[str, str] = Field(description="path -> text")
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Seconds
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the answer before")


class MissingAblations(Frozen):
    """What the draft's claims need and nobody measured; nothing, where nothing is missing."""

    ablations: tuple[Ablation, ...] = ()
    why: str = Field(min_length=1, description="why these, or why none is missing, in one or two sentences")


MISSING_ABLATIONS = Role("missing_ablations", MissingAblationsInputs, MissingAblations, prompt_tokens=40_000,
                         usual=(12_000, 800))
