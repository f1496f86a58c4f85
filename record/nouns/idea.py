"""The idea that a run is about, and how it is read: JSON as AI-Scientist-v2 writes it, a list of ideas or one object.

    IdeaError       you: the file is not there, is no JSON, or the idea in it lacks something; nothing was created
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError


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


_TEXTS = ("Name", "Title", "Short Hypothesis", "Related Work", "Abstract", "Metric", "Code")
_LISTS = ("Experiments", "Risk Factors and Limitations", "Datasets")
_REQUIRED = ("Name", "Title", "Experiments")
_SPELT = {name.lower(): name for name in (*_TEXTS, *_LISTS)}


class IdeaError(Exception):
    """An idea file cannot be used. The message is one line that says what is wrong and how to mend it."""


def read_idea(path: Path, index: int | None = None) -> Idea:
    """The idea of a file; of several, the one at `index` (from 0). Raises `IdeaError`."""
    ideas = _ideas(path)
    if index is None and len(ideas) > 1:
        raise IdeaError(f"{path} holds {len(ideas)} ideas: choose one with --idea-idx ({_names(ideas)})")
    position = index or 0
    if not 0 <= position < len(ideas):
        raise IdeaError(f"--idea-idx {position} is not in {path}, which holds {len(ideas)} ({_names(ideas)})")
    where = str(path) if len(ideas) == 1 else f"{path}, idea {position}"
    return _idea(ideas[position], where)


def _ideas(path: Path) -> list[Any]:
    found = _json(path)
    ideas: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not ideas:
        raise IdeaError(f"{path} is an empty list: it must hold one idea at least, with Name, Title and Experiments")
    return ideas


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise IdeaError(f"there is no idea file {path}: give --idea the path of a JSON file") from None
    except OSError as error:
        raise IdeaError(f"cannot read the idea file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise IdeaError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8 JSON") from None
    except json.JSONDecodeError as error:
        raise IdeaError(f"{path} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise IdeaError(f"{path} is nested too deeply to be an idea") from None


def _idea(raw: Any, where: str) -> Idea:
    if not isinstance(raw, dict):
        raise IdeaError(f"{where}: an idea is a JSON object with Name, Title and Experiments, not {_kind(raw)}")
    fields = _fields(cast("dict[Any, Any]", raw), where)
    for name in _TEXTS:
        _check_text(name, fields, where)
    for name in _LISTS:
        _check_list(name, fields, where)
    try:
        return Idea.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as error:  # a rule that the checks above do not know yet
        first = error.errors()[0]
        raise IdeaError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _fields(raw: dict[Any, Any], where: str) -> dict[str, Any]:
    """Field -> value; a field that is spelt otherwise, as short_hypothesis, counts as ours. Raises `IdeaError`."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        name = _SPELT.get(str(key).strip().lower().replace("_", " "), str(key))
        if name in fields:
            raise IdeaError(f"{where}: {name} stands there twice, once as {str(key)!r}: remove one of them")
        fields[name] = value
    return fields


def _check_text(name: str, fields: dict[str, Any], where: str) -> None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise IdeaError(f"{where}: {name} must be text, not {_kind(value)}")
    if name in _REQUIRED and not (value or "").strip():
        raise IdeaError(f"{where}: the idea has no {name}: add a {name!r} field with text")


def _check_list(name: str, fields: dict[str, Any], where: str) -> None:
    value = fields.get(name)
    wrong = _not_text(value)
    if wrong is not None:
        raise IdeaError(f"{where}: {name} must be text or a list of texts, not {wrong}")
    if name in _REQUIRED and not _has_text(value):
        raise IdeaError(f"{where}: the idea has no {name}: list what should be tried, one sentence each")


def _has_text(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, dict):
        return bool(cast("dict[Any, Any]", value))
    return isinstance(value, list) and all(map(_has_text, cast("list[Any]", value))) and bool(cast("list[Any]", value))


def _not_text(value: Any) -> str | None:
    """What in a list of sentences is neither text, nor a list of texts, nor a mapping of titles; None when all is."""
    if value is None or isinstance(value, str | dict):
        return None
    if isinstance(value, list):
        return next((f"a list with {wrong}" for one in cast("list[Any]", value)
                     if (wrong := "null" if one is None else _not_text(one))), None)
    return _kind(value)


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "text",
             list: "a list", dict: "an object"}
    return names[type(value)]


def _names(ideas: list[Any]) -> str:
    """The ideas' names with their indices, cut to what fits a line."""
    shown = ", ".join(f"{i}: {_name(idea)}" for i, idea in enumerate(ideas[:8]))
    return shown + (", ..." if len(ideas) > 8 else "")


def _name(idea: Any) -> str:
    if not isinstance(idea, dict):
        return _kind(idea)
    named = {str(key).lower(): value for key, value in cast("dict[Any, Any]", idea).items()}
    return str(named.get("name") or "without a Name")[:40]
