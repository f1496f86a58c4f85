"""Prior work and review of a data plan: `prior_search` proposes searches, `prior_work` extracts what a paper used,
and `protocol_review` looks for flaws in the plan before any code is written.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from labwright.models.roles.experiment_code import MeasuredRate, Seconds
from labwright.models.roles.ideation import PageText, Query
from labwright.models.roles.role import EnvironmentField, Role
from labwright.models.roles.study_plan import CatalogueEntry
from labwright.record.plan_edits import read_field_path
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea
from labwright.record.schema.prior_work import PriorPaper, PriorUse, SharedPriorUse
from labwright.record.schema.protocol_review import ProtocolFinding, ReviewedFinding, UnresolvedFinding


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


class ProtocolReviewInputs(FrozenModel):
    idea: Idea
    data_plan: DataPlan
    estimands: dict[str, str] = Field(
        default_factory=dict, description="expression -> plain description of the quantity that it estimates"
    )
    catalogue: tuple[CatalogueEntry, ...] = Field(description="the datasets of the plan")
    others: tuple[str, ...] = Field(default=(), description="names of other available datasets")
    seeds: int = Field(ge=0, description="maximum number of replicates of a configuration")
    node_seconds: Seconds
    retry_seconds: Seconds = 0.0
    run_seconds: Annotated[float, EnvironmentField(0.0)] = Field(
        default=0.0, description="limit of the run; 0: unknown"
    )
    device: Annotated[str, EnvironmentField("")] = "cpu"
    rate: MeasuredRate = None
    hours: Annotated[tuple[str, ...], EnvironmentField(())] = Field(
        default=(), description="lines that say what the plan can decide in the run's time"
    )
    prior: tuple[PriorPaper, ...] = ()
    common: tuple[SharedPriorUse, ...] = Field(default=(), description="items used by at least two of these papers")
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
