"""Edits of a data plan: set, add to or remove from a field, named by its path.

A plan has thousands of characters; a model that rewrites all of them to change one field may change others by accident.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, cast

from pydantic import Field, ValidationError

from labwright.record.float_compare import parse_whole_number
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan

FIELD_PATH_PATTERN = re.compile(r"[a-z_]+(?:\[[^\[\]]+\]|\.[a-z_]+)*")
P = TypeVar("P", bound=DataPlan)


class PlanEdit(FrozenModel):
    """One change of a plan."""

    action: Literal["set", "add", "remove"] = Field(default="set", description="set a field; add or remove an item")
    path: str = Field(
        min_length=1,
        max_length=200,
        description="the field, or for 'add' the list: 'notes', 'untested', 'arms[plain].description', "
        "'hypotheses[0].effects[0].smallest'; items by position from 0, or by name or id",
    )
    value: str = Field(default="", description="new value or item: of a text its words, else JSON; empty for 'remove'")


def split_path(path: str) -> tuple[str, ...]:
    """Return the fields and items of a path, outermost first. Raises `LookupError`."""
    if not FIELD_PATH_PATTERN.fullmatch(path):
        raise LookupError(path)
    return tuple(item or field for item, field in re.findall(r"\[([^\[\]]+)\]|([a-z_]+)", path))


def find_item(items: Sequence[Any], name: str) -> int:
    """Return the position of a list item that is named by its position, name or id. Raises `LookupError`."""
    if (position := parse_whole_number(name)) is not None:
        if position >= len(items):
            raise LookupError(name)
        return position
    names = [_find_name(one) for one in items]
    if name not in names:
        raise LookupError(name)
    return names.index(name)


def _find_name(item: Any) -> str | None:
    fields = cast("dict[str, Any]", item if isinstance(item, dict) else getattr(item, "__dict__", {}))
    return fields.get("name") or fields.get("id")


def apply_plan_edits(plan: P, edits: Sequence[PlanEdit]) -> P:
    """Return the plan with the edits applied in order. Raises `ValueError` with one line for their author."""
    content: dict[str, Any] = plan.model_dump(mode="json")
    for number, edit in enumerate(edits, 1):
        try:
            _apply_edit(content, edit)
        except LookupError:
            at_the_top = f"at the top are {', '.join(DataPlan.model_fields)}"
            raise ValueError(
                f"edit {number}: the plan has no field {edit.path!r}; name one as 'notes', 'arms[plain].description' "
                f"or 'hypotheses[0].effects[0].smallest'; {at_the_top}"
            ) from None
        except ValueError as error:
            raise ValueError(f"edit {number}, {edit.path!r}: {error}") from None
    try:
        return plan.__class__.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"the edited plan is invalid at {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _apply_edit(content: dict[str, Any], edit: PlanEdit) -> None:
    *outer, last = split_path(edit.path)
    at: Any = content
    for name in outer:
        at = at[_find_place(at, name)]
    place = _find_place(at, last)
    if at is content and last not in DataPlan.model_fields:
        raise LookupError(edit.path)
    if edit.action == "remove":
        if not isinstance(at, list) or not isinstance(place, int):
            raise ValueError(
                "'remove' takes an item of a list, such as arms[plain]; set a field to its default instead"
            )
        del at[place]
        return
    now = cast("dict[str, Any]", at).get(last) if isinstance(at, dict) else at[place]
    if edit.action == "set":
        at[place] = _read_value(edit.value, now)
    elif isinstance(now, list):
        items = cast("list[Any]", now)
        items.append(_read_value(edit.value, items[-1] if items else None))
    elif now is None:
        at[place] = [_read_value(edit.value, None)]
    else:
        raise ValueError("'add' takes the path of a list, such as 'arms' or 'untested'")


def _find_place(of: Any, name: str) -> str | int:
    if isinstance(of, dict):
        return name
    if not isinstance(of, list):
        raise LookupError(name)
    return find_item(cast("list[Any]", of), name)


def _read_value(text: str, now: Any) -> Any:
    """Read a value: JSON, or plain text if the current value is a string (unquoted text is accepted even if there is no
    value yet).
    """
    try:
        value = json.loads(text)
    except ValueError:
        if now is None or isinstance(now, str):
            return text
        raise ValueError(f"{text[:80]!r} is not JSON: write a list, object, number, true, false or null") from None
    return text if isinstance(now, str) and not isinstance(value, str) else value


def read_field_path(plan: DataPlan, path: str) -> Any:
    """Return the value at a field path of a plan. Raises `LookupError`."""
    at: Any = plan
    for name in split_path(path):
        if isinstance(at, FrozenModel):
            if name not in type(at).model_fields:
                raise LookupError(path)
            at = getattr(at, name)
        elif isinstance(at, tuple):
            items = cast("tuple[Any, ...]", at)
            at = items[find_item(items, name)]
        else:
            raise LookupError(path)
    return at
