"""The idea that a run is about, in the form that people hand it in."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _lines(value: Any) -> Any:
    """Accept what people write where a list of sentences is meant: one string, a list, or a mapping of titles."""
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if isinstance(value, dict):
        return tuple(f"{key}: {text}" for key, text in cast("dict[Any, Any]", value).items())
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return tuple("; ".join(_lines(item)) if isinstance(item, list | dict) else str(item) for item in items)
    return value


Lines = Annotated[tuple[str, ...], BeforeValidator(_lines)]


class Idea(BaseModel):
    """A research idea in AI-Scientist-v2's JSON form (field names unchanged), with three optional fields of ours."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    name: str = Field(alias="Name", min_length=1)
    title: str = Field(alias="Title", min_length=1)
    short_hypothesis: str = Field(default="", alias="Short Hypothesis")
    related_work: str = Field(default="", alias="Related Work")
    abstract: str = Field(default="", alias="Abstract")
    experiments: Lines = Field(alias="Experiments", min_length=1)
    risks: Lines = Field(default=(), alias="Risk Factors and Limitations")
    datasets: Lines = Field(default=(), alias="Datasets")
    metric: str | None = Field(default=None, alias="Metric")
    code: str | None = Field(default=None, alias="Code")
