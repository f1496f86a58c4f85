"""`code_reader`: a second role reads the code behind a paper's numbers, without comments and docstrings."""

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
    """Neither the author's words nor what was measured: the reader sees what the code does."""

    task: str = Field(description="of the data plan")
    arms: tuple[Arm, ...]
    metrics: tuple[MetricSpec, ...]
    datasets: tuple[str, ...]
    kind: NodeKind
    ablated: str = Field(default="", description="the names of its ablations, if it is one")
    change: str = Field(default="", description="what such a node was to change, in its author's words")
    files: dict[str, str] = Field(description="path -> code without comments and docstrings, with its lines numbered")


class CodeReading(FrozenModel):
    """What is doubtful in the code, and what it comes to. The doubts come before the verdict."""

    doubts: tuple[CodeDoubt, ...] = Field(default=(), max_length=8, description="the gravest first; none is usual")
    verdict: Literal["honest", "doubtful", "dishonest"] = Field(
        description=("dishonest: a reader of the paper would be deceived by what the cited lines do; doubtful: perhaps")
    )
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


CODE_READER = Role(
    "code_reader", CodeReaderInputs, CodeReading, temperature=0.0, prompt_tokens=24_000, typical_tokens=(5000, 400)
)
