"""Planning: the data plan of a study (`plan`; `repository_plan` of a user's repository) and its ablations.

`ablation_plan` plans as an author does, before the last stage; `missing_ablations` reads the draft as a reviewer does.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.experiment_code import MeasuredRate, NodeBrief, Seconds, StudyInputs, UnreportedStage
from labwright.models.roles.repository import Word
from labwright.models.roles.repository_patches import ShownRepository
from labwright.models.roles.role import EnvironmentField, Role
from labwright.record.ablation import Ablation
from labwright.record.ablation_results import AblationResult
from labwright.record.schema.command_space import CommandSpace
from labwright.record.schema.data_plan import Arm, DataPlan, Factor, HubItem, Level, ResourceNeeds
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import StageSummary
from labwright.record.schema.paper import PaperDraft
from labwright.record.schema.prior_work import PriorPaper, SharedPriorUse
from labwright.record.schema.protocol_review import FindingAnswer, ProtocolFinding
from labwright.record.schema.repository import MetricDirection
from labwright.record.schema.tuning import Hyperparameter


class CatalogueEntry(FrozenModel):
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
    meta_in_test: dict[str, int] = Field(default={}, description="such a column -> values of it in test")
    scorer: str = Field(default="", description="what a frozen scorer of the user's computes there, in words")
    command: str = Field(default="", description="of a user's repository: what each cell is one run of")


class SubjectEntry(FrozenModel):
    """A language model that experiments may ask."""

    name: str
    model: str
    description: str = ""
    context_tokens: int | None = None
    price: str = ""
    calls: str = Field(default="", description="how many may be under way, and go out in a minute")


class PlanningInputs(FrozenModel):
    """What is told of whatever is planned."""

    idea: Idea
    node_seconds: Seconds
    device: Annotated[str, EnvironmentField("")] = "cpu"
    room: Annotated[ResourceNeeds | None, EnvironmentField(None)] = Field(
        default=None, description="what a cell can have at most"
    )
    retry_seconds: Seconds = 0.0
    run_seconds: Annotated[float, EnvironmentField(0.0)] = Field(
        default=0.0, description="limit of the run; 0: unknown"
    )
    rate: MeasuredRate = None
    seeds: int = Field(default=20, description="fresh seeds of what is reported, at most")
    context: tuple[str, ...] = Field(default=(), description="lines from the user's own documents, with their places")
    prior: tuple[PriorPaper, ...] = Field(default=(), description="what the closest papers used")
    common: tuple[SharedPriorUse, ...] = Field(default=(), description="what two of them or more used")
    before: DataPlan | None = Field(default=None, description="the plan handed in before")
    findings: tuple[ProtocolFinding, ...] = Field(default=(), description="what a reviewer found wrong with that plan")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


class PlanInputs(PlanningInputs):
    catalogue: tuple[CatalogueEntry, ...]
    subjects: tuple[SubjectEntry, ...] = ()
    subject_budget: Annotated[str, EnvironmentField("")] = Field(default="", description="what they may take together")
    metrics: tuple[str, ...] = Field(description="metrics that we compute from submitted predictions")
    shares: dict[str, float] = Field(default_factory=dict, description="share of a dataset's examples by split")
    packages: tuple[str, ...] = Field(default=(), description="that the plan may ask for; none: what is there must do")
    hub: tuple[HubItem, ...] = Field(default=(), description="models and datasets of the hub that may be asked for")


class AmendedPlan(DataPlan):
    """A plan after its review, with an answer to each finding."""

    answers: tuple[FindingAnswer, ...] = Field(default=(), description="each finding once, by its number")


def _choose_plan_type(inputs: PlanInputs) -> type[DataPlan]:
    return AmendedPlan if inputs.findings else DataPlan


PLAN = Role(
    "plan", PlanInputs, DataPlan, prompt_tokens=16_000, typical_tokens=(4500, 1500), choose_output=_choose_plan_type
)


class RepositoryPlanInputs(PlanningInputs):
    dataset: str = Field(description="what the plan calls the repository's own data")
    direction: MetricDirection
    repository: ShownRepository
    options: tuple[str, ...] = Field(default=(), description="of what the command runs, one a line")
    keys: tuple[str, ...] = Field(default=(), description="of its configuration, name = value")
    space: CommandSpace = Field(default=CommandSpace(), description="what the person says can be set")


class _CommandArm(Arm):
    words: tuple[Word, ...] = Field(
        default=(),
        description=(
            "what makes this arm of the command: options or overrides key=value, one word an entry; empty: the "
            "baseline, "
            "or an arm that a patch makes"
        ),
    )


class _CommandLevel(Level):
    words: tuple[Word, ...] = Field(default=(), description="what the command of every arm gets at this level")


class _CommandFactor(Factor):
    levels: tuple[_CommandLevel, ...] = Field(min_length=2)  # pyright: ignore


class _CommandHyperparameter(Hyperparameter):
    word: str = Field(default="", description="how the command is given it: '--lr {value}' or 'model.lr={value}'")


class RepositoryPlan(DataPlan):
    """A plan whose arms are words of a repository's command, or patches of its files."""

    # pyright takes no model for frozen, and so no narrower type for an override
    arms: tuple[_CommandArm, ...] = Field(min_length=2, description="the repository as it is, and a method")  # pyright: ignore
    levels: tuple[_CommandLevel, ...] = ()  # pyright: ignore
    factors: tuple[_CommandFactor, ...] = Field(
        default=(),
        description=(  # pyright: ignore
            "where several are varied: the program crosses them and makes `levels` and `factor` of them"
        ),
    )
    space: tuple[_CommandHyperparameter, ...] = Field(default=(), description="what is tuned")  # pyright: ignore
    packages: SkipJsonSchema[tuple[str, ...]] = ()
    pretrained: SkipJsonSchema[tuple[str, ...]] = ()
    subjects: SkipJsonSchema[tuple[str, ...]] = ()


class AmendedRepositoryPlan(RepositoryPlan, AmendedPlan):  # pyright: ignore
    """One after its review, with an answer to each finding."""


def _choose_repository_plan_type(inputs: RepositoryPlanInputs) -> type[RepositoryPlan]:
    return AmendedRepositoryPlan if inputs.findings else RepositoryPlan


REPOSITORY_PLAN = Role(
    "repository_plan",
    RepositoryPlanInputs,
    RepositoryPlan,
    prompt_tokens=40_000,
    choose_output=_choose_repository_plan_type,
)


class AblationPlanInputs(StudyInputs):
    """For role `ablation_plan`; answers with `AblationPlan`. Validation results only."""

    method: NodeBrief = Field(description="the node that is ablated, with its code")
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Seconds
    rate: MeasuredRate = None
    earlier: tuple[StageSummary, ...] = Field(default=(), description="reports on the stages before")
    unreported: tuple[UnreportedStage, ...] = Field(default=(), description="of these stages, those without a report")
    notes: tuple[str, ...] = Field(default=(), description="notes of the person who runs us")
    written: tuple[str, ...] = Field(default=(), description="ablations that a person wrote and that run already")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the plan handed in before")


class RiskTested(FrozenModel):
    """A risk factor of the idea, and the ablation that tests it."""

    risk: int = Field(ge=1, description="its number in the list of risk factors")
    by: str = Field(default="", description="the name of a planned ablation; empty: none can")
    reason: str = Field(default="", description="why none does")


class AblationPlan(FrozenModel):
    """What is worth ablating, that first which carries most of the claim."""

    ablations: tuple[Ablation, ...] = Field(min_length=1)
    risks: tuple[RiskTested, ...] = Field(default=(), description="every risk factor of the idea once")


ABLATION_PLAN = Role(
    "ablation_plan", AblationPlanInputs, AblationPlan, prompt_tokens=20_000, typical_tokens=(5500, 1200)
)


class MissingAblationsInputs(StudyInputs):
    draft: PaperDraft = Field(description="with the values that its macros print")
    trials: tuple[AblationResult, ...] = Field(description="what was planned, and what became of it")
    method_plan: str
    method_code: dict[str, str] = Field(description="path -> text")
    most: int = Field(ge=1, description="ablations at most")
    node_seconds: Seconds
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the answer before")


class MissingAblationsAnswer(FrozenModel):
    """What the draft's claims need and nobody measured; nothing, where nothing is missing."""

    ablations: tuple[Ablation, ...] = ()
    why: str = Field(min_length=1, description="why these, or why none is missing, in one or two sentences")


MISSING_ABLATIONS = Role(
    "missing_ablations",
    MissingAblationsInputs,
    MissingAblationsAnswer,
    prompt_tokens=40_000,
    typical_tokens=(12_000, 800),
)
