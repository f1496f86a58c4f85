"""Assess experiments: one node (`feedback`), two nodes (`compare`) or a stage (`summary`).

Also the reading of a node's code.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.experiment_code import NodeBrief, NodeInputs, NodeLine, StudyInputs, Tables
from labwright.models.roles.role import Role
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import Arm, Measurement, MetricSpec
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.nodes import BranchStep, CodeDoubt, Node, NodeKind, NodeVerdict, StageName, StageReport
from labwright.record.tuning_results import ChosenSetting


class FeedbackInputs(NodeInputs):
    node: Node
    code: dict[str, str] = Field(description="its Python files except plots.py, path -> text")
    before: dict[str, str] = Field(
        default={}, description="files of its parent node, if that was judged sound; otherwise empty"
    )
    parent_measurements: tuple[Measurement, ...] = ()
    beside: tuple[NodeLine, ...] = Field(default=(), description="finished nodes of other ablations, read with it")
    settings: tuple[ChosenSetting, ...] = Field(
        default=(), description="settings of each arm with hyperparameters; only for programs with cells"
    )


FEEDBACK = Role("feedback", FeedbackInputs, NodeVerdict, prompt_tokens=14_000, typical_tokens=(3900, 400))


class CompareInputs(StudyInputs):
    """Two nodes that measurements cannot distinguish."""

    stage: StageName
    a: NodeBrief
    b: NodeBrief
    difference: str = Field(description="unified diff of their code, from a to b")
    noise: dict[str, float] = Field(
        description="dataset -> standard deviation over seeds of the primary metric's mean over the deciding cells"
    )


class Preference(FrozenModel):
    """The sounder of two nodes to build on."""

    better: Literal["a", "b", "neither"]
    reasons: str = Field(description="two to four sentences, with locations in the code")


COMPARE = Role("compare", CompareInputs, Preference, temperature=0.0, prompt_tokens=20_000, typical_tokens=(7000, 300))


class SummaryInputs(StudyInputs):
    """For role `summary`; answered by `StageReport`. Validation results only."""

    stage: StageName
    tested: bool = Field(default=True, description="whether the study has test data")
    ended: str
    limit: str = Field(default="", description="the run's limit that was reached, after which no new experiment starts")
    unstarted: tuple[StageName, ...] = Field(
        default=(), description="later stages that will not run because of this limit and have no experiments"
    )
    nodes: tuple[NodeLine, ...]
    best: str | None
    best_plan: str = ""
    settings: tuple[ChosenSetting, ...] = Field(default=(), description="settings of the best node's arms")
    reasons: tuple[str, ...] = ()
    statistics: tuple[Claim, ...] = Field(default=(), description="metrics of the plan; no interval where n < 3")
    differences: tuple[ClaimDifference, ...] = Field(
        default=(), description="paired over seeds, for metrics of the plan"
    )
    decisions: tuple[HypothesisDecision, ...] = Field(
        default=(), description="the hypotheses' effects over the replicates"
    )
    tables: Tables = Field(
        default=Tables(), description="tables of means over replicates; self-reported values of the best"
    )
    replicates_failed: int = 0
    seedless: tuple[str, ...] = Field(
        default=(), description="replicated nodes whose code ignores the seed: all seeds gave the same values"
    )
    branch: tuple[BranchStep, ...] = Field(
        default=(), description="nodes on the path from the first draft to the stage's best"
    )


SUMMARY = Role("summary", SummaryInputs, StageReport, temperature=1.0, prompt_tokens=14_000, typical_tokens=(3300, 700))


# Role `code_reader`: audit the code behind a paper's numbers, without comments and docstrings.


class CodeReaderInputs(FrozenModel):
    """Inputs without the author's explanations and without values, since the reader must judge the code."""

    task: str = Field(description="task of the data plan")
    arms: tuple[Arm, ...]
    metrics: tuple[MetricSpec, ...]
    datasets: tuple[str, ...]
    kind: NodeKind
    ablated: str = Field(default="", description="names of its arms, if it is an ablation node")
    change: str = Field(
        default="", description="for an ablation node: the change that it had to make, as its author described it"
    )
    files: dict[str, str] = Field(description="path -> code without comments and docstrings, with line numbers")
    facts: tuple[str, ...] = Field(default=(), description="facts of its run that need an explanation in the code")
    again: bool = Field(default=False, description="second reading: files and checks are shown in reverse order")


class CodeReading(FrozenModel):
    """Doubts about the code, and the verdict. The field for doubts comes before the verdict."""

    doubts: tuple[CodeDoubt, ...] = Field(default=(), max_length=8, description="most serious first; usually none")
    verdict: Literal["honest", "doubtful", "dishonest"] = Field(
        description="dishonest: the cited lines would deceive a reader; doubtful: that depends on what is not shown"
    )
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


CODE_READER = Role(
    "code_reader", CodeReaderInputs, CodeReading, temperature=0.0, prompt_tokens=24_000, typical_tokens=(5000, 400)
)
