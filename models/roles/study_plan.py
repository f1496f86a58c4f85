"""Plan a study (`plan`; `repository_plan` for a user's repository) and its ablations.

`ablation_plan` plans as an author before the last stage; `missing_ablations` reads the draft as a reviewer.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.experiment_code import MeasuredRate, NodeBrief, Seconds, StudyInputs
from labwright.models.roles.ideation import PageText, Query
from labwright.models.roles.repository import ShownRepository, Word
from labwright.models.roles.role import EnvironmentField, Role
from labwright.record.ablation_results import AblationResult
from labwright.record.baseline_check import Ablation, Surprise
from labwright.record.plan_edits import PlanEdit, apply_plan_edits, read_field_path
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    Factor,
    HubItem,
    Hyperparameter,
    Level,
    ResourceNeeds,
)
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.schema.hypotheses import FindingAnswer, ProtocolFinding, ReviewedFinding, UnresolvedFinding
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import StageSummary
from labwright.record.schema.paper import PaperDraft
from labwright.record.schema.prior_work import PriorPaper, PriorUse, SharedPriorUse
from labwright.record.schema.repository import CommandSpace, MetricDirection


class SubjectEntry(FrozenModel):
    """A language model that experiments may query."""

    name: str
    model: str
    description: str = ""
    context_tokens: int | None = None
    price: str = ""
    calls: str = Field(default="", description="limits on concurrent calls and calls per minute")


class PlanConditions(FrozenModel):
    """What a plan and its review depend on: the idea, the machine and the limits, and the closest papers."""

    idea: Idea
    node_seconds: Seconds
    device: Annotated[str, EnvironmentField("")] = "cpu"
    retry_seconds: Seconds = 0.0
    run_seconds: Annotated[float, EnvironmentField(0.0)] = Field(
        default=0.0, description="limit of the run; 0: unknown"
    )
    rate: MeasuredRate = None
    prior: tuple[PriorPaper, ...] = Field(default=(), description="items used by the closest papers")
    common: tuple[SharedPriorUse, ...] = Field(default=(), description="items used by at least two of them")
    hours: Annotated[tuple[str, ...], EnvironmentField(())] = Field(
        default=(), description="lines that say what the previous plan can decide in the run's time"
    )


class PlanningInputs(PlanConditions):
    """Inputs shared by all planning roles."""

    room: Annotated[ResourceNeeds | None, EnvironmentField(None)] = Field(
        default=None, description="maximum resources of a cell"
    )
    seeds: int = Field(default=20, description="maximum number of fresh seeds of reported results")
    context: tuple[str, ...] = Field(default=(), description="lines from the user's documents, with their locations")
    studies: tuple[EarlierStudy, ...] = Field(default=(), description="records of earlier runs")
    before: DataPlan | None = Field(default=None, description="the previous plan")
    findings: tuple[ProtocolFinding, ...] = Field(default=(), description="a reviewer's findings on that plan")
    complaints: tuple[str, ...] = Field(default=(), description="what was wrong with the previous plan")
    slots: Annotated[int, EnvironmentField(1)] = Field(default=1, description="number of experiments at a time")


class PlanInputs(PlanningInputs):
    catalogue: tuple[DatasetFacts, ...]
    subjects: tuple[SubjectEntry, ...] = ()
    subject_budget: Annotated[str, EnvironmentField("")] = Field(
        default="", description="budget shared by these language models"
    )
    metrics: tuple[str, ...] = Field(description="metrics that the program computes from submitted predictions")
    shares: dict[str, float] = Field(default_factory=dict, description="share of a dataset's examples by split")
    packages: tuple[str, ...] = Field(default=(), description="packages that the plan may request")
    hub: tuple[HubItem, ...] = Field(default=(), description="models and datasets of the hub that may be requested")


class PlanRevision(FrozenModel):
    """Changes of the previous plan; everything that no edit names stays unchanged."""

    edits: tuple[PlanEdit, ...] = Field(default=(), max_length=60, description="applied in this order")
    answers: tuple[FindingAnswer, ...] = Field(default=(), description="each finding once, by its number")


def _choose_plan_type(inputs: PlanningInputs) -> type[DataPlan | PlanRevision]:
    return DataPlan if inputs.before is None else PlanRevision


def _check_plan(inputs: PlanningInputs, answer: DataPlan | PlanRevision) -> None:
    if inputs.before is not None and isinstance(answer, PlanRevision):
        apply_plan_edits(inputs.before, answer.edits)
        if inputs.complaints and not answer.edits:
            raise ValueError("edits: there is none, so the plan still cannot be used: change what each point names")


PLAN: Role[PlanInputs, DataPlan | PlanRevision] = Role(
    "plan",
    PlanInputs,
    DataPlan,
    prompt_tokens=16_000,
    typical_tokens=(4500, 1500),
    choose_output=_choose_plan_type,
    check=_check_plan,
)


class RepositoryPlanInputs(PlanningInputs):
    dataset: str = Field(description="the plan's name for the repository's own data")
    direction: MetricDirection
    repository: ShownRepository
    options: tuple[str, ...] = Field(default=(), description="options of the command, one per line")
    keys: tuple[str, ...] = Field(default=(), description="keys of its configuration, name = value")
    space: CommandSpace = Field(default=CommandSpace(), description="hyperparameters given by the user")


class _CommandArm(Arm):
    words: tuple[Word, ...] = Field(
        default=(),
        description=(
            "arguments that make this arm: options or overrides key=value, one word per entry; empty: the "
            "baseline, or an arm made by a patch"
        ),
    )


class _CommandLevel(Level):
    words: tuple[Word, ...] = Field(default=(), description="words added to the command of every arm at this level")


class _CommandFactor(Factor):
    levels: tuple[_CommandLevel, ...] = Field(min_length=2)


class _CommandHyperparameter(Hyperparameter):
    word: str = Field(default="", description="how to pass it to the command: '--lr {value}' or 'model.lr={value}'")


class RepositoryPlan(DataPlan):
    """A plan whose arms are words of a repository's command, or patches of its files."""

    arms: tuple[_CommandArm, ...] = Field(min_length=2, description="the unmodified repository, and a method")
    levels: tuple[_CommandLevel, ...] = ()
    factors: tuple[_CommandFactor, ...] = Field(
        default=(), description="if several are varied: the program crosses them and derives `levels` and `factor`"
    )
    space: tuple[_CommandHyperparameter, ...] = Field(default=(), description="the hyperparameters to tune")
    packages: SkipJsonSchema[tuple[str, ...]] = ()
    pretrained: SkipJsonSchema[tuple[str, ...]] = ()
    subjects: SkipJsonSchema[tuple[str, ...]] = ()


def _choose_repository_plan_type(inputs: RepositoryPlanInputs) -> type[RepositoryPlan | PlanRevision]:
    return RepositoryPlan if inputs.before is None else PlanRevision


REPOSITORY_PLAN: Role[RepositoryPlanInputs, RepositoryPlan | PlanRevision] = Role(
    "repository_plan",
    RepositoryPlanInputs,
    RepositoryPlan,
    prompt_tokens=40_000,
    choose_output=_choose_repository_plan_type,
    check=_check_plan,
)


class AblationInputs(StudyInputs):
    """Inputs shared by the roles that plan ablations."""

    repository: ShownRepository | None = Field(default=None, description="the user's repository, if one is studied")
    most: int = Field(ge=1, description="maximum number of ablations")
    node_seconds: Seconds
    complaints: tuple[str, ...] = Field(default=(), description="errors in the previous answer")


class AblationPlanInputs(AblationInputs):
    """For role `ablation_plan`; answered by `AblationPlan`. Validation results only."""

    method: NodeBrief = Field(description="the node to ablate, with its code")
    rate: MeasuredRate = None
    earlier: tuple[StageSummary, ...] = Field(default=(), description="reports on earlier stages")
    notes: tuple[str, ...] = Field(default=(), description="notes of the user")
    written: tuple[str, ...] = Field(default=(), description="ablations that the user wrote and that already run")


class RiskTested(FrozenModel):
    """A risk factor of the idea, and the ablation that tests it."""

    risk: int = Field(ge=1, description="its number in the list of risk factors")
    by: str = Field(default="", description="name of a planned ablation that tests it; empty: none can")
    reason: str = Field(default="", description="reason why no ablation tests it")


class AblationPlan(FrozenModel):
    """The ablations worth running; the one that tests the most of the claim comes first."""

    ablations: tuple[Ablation, ...] = Field(min_length=1)
    risks: tuple[RiskTested, ...] = Field(default=(), description="every risk factor of the idea once")
    surprise: Surprise | None = Field(
        default=None, description="the strongest surprise among the measured values; null if there is none"
    )


ABLATION_PLAN = Role(
    "ablation_plan", AblationPlanInputs, AblationPlan, prompt_tokens=20_000, typical_tokens=(5500, 1200)
)


class MissingAblationsInputs(AblationInputs):
    draft: PaperDraft = Field(description="the draft, with the values that its macros print")
    trials: tuple[AblationResult, ...] = Field(description="planned ablations and their outcomes")
    method_plan: str
    method_code: dict[str, str] = Field(description="path -> text")


class MissingAblationsAnswer(FrozenModel):
    """Ablations that the draft's claims need but that were not measured; empty if none is missing."""

    ablations: tuple[Ablation, ...] = ()
    why: str = Field(min_length=1, description="one or two sentences: why these ablations are missing, or why none is")


MISSING_ABLATIONS = Role(
    "missing_ablations",
    MissingAblationsInputs,
    MissingAblationsAnswer,
    prompt_tokens=40_000,
    typical_tokens=(12_000, 800),
)


# Prior work and review of a data plan: `prior_search` proposes searches, `prior_work` extracts what a paper used, and
# `protocol_review` looks for flaws in the plan before any code is written.


class PriorSearchInputs(FrozenModel):
    idea: Idea
    most: int = Field(ge=1, description="maximum number of searches")


class PriorSearch(FrozenModel):
    """Queries for a paper search that find the closest papers; empty if no search would help."""

    queries: tuple[Query, ...] = ()


PRIOR_SEARCH = Role(
    "prior_search",
    PriorSearchInputs,
    PriorSearch,
    temperature=0.3,
    max_tokens=1024,
    prompt_tokens=4000,
    typical_tokens=(1100, 80),
)


class PriorWorkInputs(FrozenModel):
    idea: Idea
    file: str
    pages: tuple[PageText, ...]
    unread: int = Field(default=0, description="characters left out because the paper is long")


class PriorWork(FrozenModel):
    """Datasets, baselines, values and budgets that a paper used."""

    title: str = Field(
        default="", max_length=300, description="title of the paper; empty if the text does not report experiments"
    )
    uses: tuple[PriorUse, ...] = Field(default=(), max_length=40)


PRIOR_WORK = Role(
    "prior_work",
    PriorWorkInputs,
    PriorWork,
    temperature=0.0,
    max_tokens=4096,
    prompt_tokens=24_000,
    typical_tokens=(16_000, 1200),
)


class ProtocolReviewInputs(PlanConditions):
    data_plan: DataPlan
    estimands: dict[str, str] = Field(
        default_factory=dict, description="expression -> plain description of the quantity that it estimates"
    )
    catalogue: tuple[DatasetFacts, ...] = Field(description="the datasets of the plan")
    others: tuple[str, ...] = Field(default=(), description="names of other available datasets")
    seeds: int = Field(ge=0, description="maximum number of replicates of a configuration")
    answered: tuple[ReviewedFinding, ...] = Field(
        default=(), description="the reviewer's own findings, with the planner's answers; the plan is the new one"
    )


class ProtocolReview(FrozenModel):
    """Flaws of a plan; empty if there are none."""

    findings: tuple[ProtocolFinding, ...] = Field(default=(), max_length=8, description="most serious first")
    upheld: tuple[UnresolvedFinding, ...] = Field(default=(), description="answered findings that still hold")


def _check_protocol_review(inputs: ProtocolReviewInputs, review: ProtocolReview) -> None:
    for one in review.findings:
        try:
            read_field_path(inputs.data_plan, one.where)
        except LookupError:
            raise ValueError(
                f"where: the plan has no field {one.where[:120]!r}; name one as 'arms', 'arms[1].role' or "
                f"'levels[NAME]'; at the top are {', '.join(DataPlan.model_fields)}"
            ) from None
    beyond = [one.finding for one in review.upheld if one.finding > len(inputs.answered)]
    if beyond:
        raise ValueError(f"upheld: finding {beyond[0]} does not exist; {len(inputs.answered)} findings were answered")


PROTOCOL_REVIEW = Role(
    "protocol_review",
    ProtocolReviewInputs,
    ProtocolReview,
    temperature=0.3,
    prompt_tokens=16_000,
    typical_tokens=(5000, 900),
    check=_check_protocol_review,
)
