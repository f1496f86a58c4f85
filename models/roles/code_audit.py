"""Role `code_reader`: audit the code behind a paper's numbers, without comments and docstrings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.role import Role
from labwright.record.schema.code_reading import CodeDoubt
from labwright.record.schema.data_plan import Arm, MetricSpec
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import NodeKind


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
