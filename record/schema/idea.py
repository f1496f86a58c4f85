"""The idea of a run and the code that reads it: JSON as written by AI-Scientist-v2, a list of ideas or one object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from labwright.record.errors import UsageError
from labwright.record.schema import FrozenModel


def _parse_sentences(value: Any) -> tuple[str, ...]:
    """Parse a list of sentences, which may be one string or a mapping from titles to strings."""
    if isinstance(value, dict):
        value = [f"{key}: {text}" for key, text in cast("dict[Any, Any]", value).items()]
    lines: list[str] = []
    for item in cast("list[Any]", value) if isinstance(value, list | tuple) else [value]:
        if not isinstance(item, str | list | dict):
            raise ValueError("must be text or a list of strings")
        lines.append(item if isinstance(item, str) else "; ".join(_parse_sentences(item)))
    return tuple(line for line in lines if line.strip())


SentenceList = Annotated[tuple[str, ...], BeforeValidator(_parse_sentences)]


class UserAnchor(BaseModel):
    """A published value of a baseline, given by the user."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    baseline: str = Field(alias="Baseline", min_length=1)
    dataset: str = Field(alias="Dataset", min_length=1)
    level: str = Field(default="", alias="Level")
    metric: str = Field(alias="Metric", min_length=1)
    value: float = Field(alias="Value")
    tolerance: float = Field(alias="Tolerance", gt=0, description="in the metric's unit")
    source: str = Field(alias="Source", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _normalise_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("must be an object with Baseline, Dataset, Metric, Value, Tolerance and Source")
        return {str(key).strip().capitalize(): one for key, one in cast("dict[Any, Any]", value).items()}

    def __str__(self) -> str:
        level = f" at {self.level}" if self.level else ""
        return (
            f"{self.baseline} on {self.dataset}{level}: {self.metric} {self.value:g} within {self.tolerance:g}, "
            f"source: {self.source}"
        )


class Idea(BaseModel):
    """A research idea in AI-Scientist-v2's JSON form (field names unchanged), with four additional optional fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    name: str = Field(alias="Name", min_length=1)
    title: str = Field(alias="Title", min_length=1)
    short_hypothesis: str = Field(default="", alias="Short Hypothesis")
    related_work: str = Field(default="", alias="Related Work")
    abstract: str = Field(default="", alias="Abstract")
    experiments: SentenceList = Field(alias="Experiments", min_length=1)
    risks: SentenceList = Field(default=(), alias="Risk Factors and Limitations")
    datasets: SentenceList = Field(default=(), alias="Datasets")
    metric: str | None = Field(default=None, alias="Metric")
    code: str | None = Field(default=None, alias="Code")
    anchors: tuple[UserAnchor, ...] = Field(default=(), alias="Anchors")


_FIELD_NAMES = {str(field.alias).lower(): str(field.alias) for field in Idea.model_fields.values()}


class IdeaError(UsageError):
    """An idea file cannot be used. The message is one line with the fault and the fix."""


def read_idea(path: Path, index: int | None = None) -> Idea:
    """Read the idea in a file; if there are several, the one at `index` (from 0). Raises `IdeaError`."""
    ideas = _read_raw_ideas(path)
    if index is None and len(ideas) > 1:
        raise IdeaError(f"{path} has {len(ideas)} ideas: choose one with --idea-idx ({_list_idea_names(ideas)})")
    position = index or 0
    if not 0 <= position < len(ideas):
        raise IdeaError(f"--idea-idx {position} is not in {path}, which has {len(ideas)} ({_list_idea_names(ideas)})")
    return _parse_idea(ideas[position], str(path) if len(ideas) == 1 else f"{path}, idea {position}")


def find_ignored_fields(path: Path, index: int | None = None) -> dict[str, str]:
    """Return the fields of the idea at `index` that no run reads -> the nearest known field, or "" if none is near."""
    return _find_unknown_fields(_read_raw_ideas(path)[index or 0])


def _find_unknown_fields(raw: dict[Any, Any]) -> dict[str, str]:
    spelt = {str(key): _spell(key) for key in raw}
    near = {key: get_close_matches(name, _FIELD_NAMES, 1) for key, name in spelt.items() if name not in _FIELD_NAMES}
    return {key: _FIELD_NAMES[names[0]] if names else "" for key, names in near.items()}


def _spell(key: object) -> str:
    """Return a field's name in the form that is compared: `short_hypothesis` is `short hypothesis`."""
    return str(key).strip().lower().replace("_", " ")


def read_ideas(path: Path) -> Iterator[Idea | IdeaError]:
    """Yield every idea of a file, or the reason why it is invalid. Raises `IdeaError` if the file cannot be read."""
    ideas = _read_raw_ideas(path)
    for position, one in enumerate(ideas):
        try:
            yield _parse_idea(one, str(path) if len(ideas) == 1 else f"{path}, idea {position}")
        except IdeaError as error:
            yield error


def _read_raw_ideas(path: Path) -> list[Any]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise IdeaError(f"cannot read the idea file {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise IdeaError(f"{path} is not valid UTF-8 JSON: {error}") from None
    ideas = cast("list[Any]", content) if isinstance(content, list) else [content]
    if not ideas:
        raise IdeaError(f"{path} is an empty list: it must contain at least one idea with Name, Title and Experiments")
    return ideas


def _parse_idea(raw: Any, where: str) -> Idea:
    try:
        return Idea.model_validate(_normalise_fields(raw))
    except (ValueError, IdeaError) as error:
        why = f"{error}"
        if isinstance(error, ValidationError):
            said = error.errors()[0]["msg"]  # e.g. of every field that is missing
            found = [one["loc"] for one in error.errors() if one["msg"] == said]
            places = (" ".join(str(part + 1 if isinstance(part, int) else part) for part in place) for place in found)
            why = f"{', '.join(places)}: {said.removeprefix('Value error, ')}"
        raise IdeaError(f"{where}: {why}") from None


def _normalise_fields(raw: object) -> dict[str, Any]:
    """Return the non-empty fields under their canonical names, accepting spellings such as short_hypothesis."""
    if not isinstance(raw, dict):
        raise IdeaError("an idea must be a JSON object with Name, Title and Experiments")
    fields: dict[str, Any] = {}
    for key, value in cast("dict[Any, Any]", raw).items():
        name = _FIELD_NAMES.get(_spell(key), str(key))
        near = get_close_matches(_spell(key), _FIELD_NAMES, 1, cutoff=0.85)
        if near and name not in _FIELD_NAMES.values():
            fix = f"call it {_FIELD_NAMES[near[0]]!r}, or use another name"
            raise IdeaError(f"unknown field {str(key)!r}: {fix}")
        if name in fields:
            raise IdeaError(f"{name} is given twice, once as {str(key)!r}: remove one of them")
        fields[name] = value
    missing = [str(one.alias) for one in Idea.model_fields.values() if one.is_required() and one.alias not in fields]
    for key, name in _find_unknown_fields(fields).items():
        if name in missing:
            raise IdeaError(f"{name}: Field required; if the unknown field {key!r} is meant, rename it to {name!r}")
    return {name: value for name, value in fields.items() if value is not None and str(value).strip()}


def _list_idea_names(ideas: list[Any]) -> str:
    """List the ideas' names with their indices, cut to fit a line."""
    pairs = [cast("dict[Any, Any]", one).items() if isinstance(one, dict) else () for one in ideas[:8]]
    names = [next((str(name)[:40] for key, name in one if str(key).lower() == "name"), "no name") for one in pairs]
    return ", ".join(f"{number}: {name}" for number, name in enumerate(names)) + ", ..." * (len(ideas) > 8)


# A research question about a repository, the experiment that answers it, and its measurements.


class ResearchQuestion(FrozenModel):
    """The question. `run` and `measure` describe the unmodified repository, if the user gave them."""

    question: str
    method: str = ""
    instructions: str = ""
    run: tuple[str, ...] = Field(default=(), description="command with {seed}")
    measure: str = Field(default="", description="where its metric is read, in the format of --metric")
    better: Literal["max", "min"] = "max"
    seeds: int = Field(default=3, ge=1, le=50)
    minutes: float = Field(default=40.0, gt=0)
    may_edit: tuple[str, ...] = Field(default=(), description="patterns of files that may change; empty: any")
    protect: tuple[str, ...] = Field(default=(), description="patterns of files that must not change")


class ExperimentVariable(FrozenModel):
    name: str = Field(min_length=1, max_length=120)
    value: str = Field(min_length=1, max_length=600, description="its value, or all its values")


class DesignedArm(FrozenModel):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=40)
    what: str = Field(min_length=1, max_length=400)


class DesignedMetric(FrozenModel):
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=40)
    higher_is_better: bool
    what: str = Field(min_length=1, max_length=400)
    margin: float | None = Field(
        default=None,
        gt=0,
        description="of the deciding metric: smallest difference that matters, from the question if it has one",
    )


class ExperimentDesign(FrozenModel):
    """The experiment, recorded before any file is changed."""

    constants: tuple[ExperimentVariable, ...] = Field(default=(), max_length=30, description="settings equal for all")
    varied: tuple[ExperimentVariable, ...] = Field(min_length=1, max_length=12, description="settings that differ")
    arms: tuple[DesignedArm, ...] = Field(min_length=2, max_length=20)
    metrics: tuple[DesignedMetric, ...] = Field(min_length=1, max_length=8)
    seeds: int = Field(ge=1, le=50, description="number of repetitions of each arm in the first run, with seeds from 0")
    hypothesis: str = Field(min_length=1, max_length=1200)
    rule: str = Field(min_length=1, max_length=1200, description="the measurement that decides it, and the rule")

    @property
    def statements(self) -> tuple[str, ...]:
        """The design as a list of constants, varied quantities, arms and metrics."""
        return (
            *(f"constant: {one.name} = {one.value}" for one in self.constants),
            f"constant: seeds = 0 to {self.seeds - 1}",
            *(f"varied: {one.name} = {one.value}" for one in self.varied),
            *(f"arm {one.name}: {one.what}" for one in self.arms),
            *(
                f"measured: {one.name}: {one.what}"
                + (f"; differences below {one.margin:g} do not matter" if one.margin is not None else "")
                for one in self.metrics
            ),
            f"hypothesis: {self.hypothesis}",
            f"rule: {self.rule}",
        )
