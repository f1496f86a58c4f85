"""How a person names data of their own: on the command line, in the configuration file, and in an idea.

`NAME=PATH[,target=COL][,group=COL][,time=COL][,split=COL][,task=classification|regression|none][,drop=COL]...`, or
`NAME=hf:OWNER/SET[,config=..][,revision=..]...` for the Hugging Face hub; in a file the same as a mapping. A comma that
no `key=` follows belongs to what stands before it, so paths and column names may hold commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from labwright.sandbox.errors import DatasetError

HUB_PREFIX = "hf:"
LIST_FIELDS = ("drop", "categorical", "literal", "meta", "meta_shown")
"""Keys that may be given several times."""
_SPEC_FORM = "write NAME=PATH,target=COLUMN"
_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_PATHLIKE_PATTERN = re.compile(r"[/\\~]|\.[A-Za-z0-9]{1,8}(,|$)|^hf:")


class DataSpec(BaseModel):
    """One dataset of the user's own. Column names are those of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="", description="what plans and `lab.data` call it")
    path: Path | None = Field(default=None, description="a CSV, Parquet or NPZ file, or a folder")
    hub: str = Field(default="", description="a dataset of the Hugging Face hub, as owner/name")
    config: str = Field(default="", description="its configuration on the hub")
    revision: str = Field(default="", description="its revision on the hub; empty: the newest")
    target: str = ""
    group: str = Field(default="", description="rows of one group stay in one split")
    time: str = Field(default="", description="test comes after validation, validation after train")
    text: str = Field(default="", description="the column of texts that is the only feature")
    horizon: int = Field(default=0, ge=0, description="of series: how many rows ahead the target is predicted")
    window: int = Field(default=1, ge=1, description="of series: how many rows an example looks back on")
    step: int = Field(default=1, ge=1, description="of series: rows from one example to the next")
    split: str = Field(default="", description="a column that says train, validation or test")
    task: Literal["classification", "regression", "none"] | None = Field(
        default=None, description="None: seen from the target; none: a folder that the code gets as a path"
    )
    drop: tuple[str, ...] = Field(default=(), description="columns to leave out")
    categorical: tuple[str, ...] = Field(default=(), description="columns of numbers that are codes")
    literal: tuple[str, ...] = Field(default=(), description="columns in which None, NA and the like are values")
    meta: tuple[str, ...] = Field(default=(), description="columns that metrics may go by and code does not see")
    meta_shown: tuple[str, ...] = Field(default=(), description="the same, and code sees them in train and dev")
    dev_from: Literal["train", "validation"] = Field(
        default="train", description="what dev is cut from; validation where the data's own train is biased"
    )
    sha256: str = Field(default="", description="of what was read when the run began; another one is refused")

    @model_validator(mode="after")
    def _check_fields(self) -> DataSpec:
        if not _NAME_PATTERN.fullmatch(self.name):
            raise ValueError(f"the name {self.name!r} cannot be used: a letter, then up to 39 letters, digits, _ and -")
        if (self.path is None) == (not self.hub):
            raise ValueError(f"data {self.name!r} needs one of path and hub: {_SPEC_FORM}")
        if (self.config or self.revision) and not self.hub:
            raise ValueError(
                f"data {self.name!r}: config= and revision= belong to the hub, as in NAME={HUB_PREFIX}OWNER/SET"
            )
        if self.group and self.time and not self.horizon:
            raise ValueError(f"data {self.name!r}: give group= or time=, not both (of series, with horizon=, both)")
        if self.horizon and (not self.time or self.split or self.text or self.task == "classification"):
            raise ValueError(
                f"data {self.name!r}: horizon= needs time=COLUMN and a target of numbers, and goes with "
                "neither split= nor text="
            )
        if not self.horizon and (self.window > 1 or self.step > 1):
            raise ValueError(f"data {self.name!r}: window= and step= are of series: give horizon=ROWS, too")
        named = [name for name in (self.target, self.group, self.time, self.split, self.text) if name]
        if twice := sorted(
            {name for name in named if named.count(name) > 1 or name in self.drop}
            | ({self.target} | set(self.drop)).intersection(self.metric_columns)
            | (set(self.meta) & set(self.meta_shown))
        ):
            raise ValueError(f"data {self.name!r}: column {twice[0]!r} is given two roles")
        return self

    @property
    def metric_columns(self) -> tuple[str, ...]:
        """The columns that metrics may go by; those of groups, too."""
        of_groups = [self.group] if self.group and not self.horizon else []
        return tuple(dict.fromkeys((*self.meta, *self.meta_shown, *of_groups)))


def parse_specs(value: Any, folder: Path) -> tuple[DataSpec, ...]:
    """What a setting, a flag or a file names: a text, a mapping, or a list of these. Raises `DatasetError`.

    Relative paths are seen from `folder`.
    """
    items = list(cast("Iterable[Any]", value)) if isinstance(value, list | tuple) else [value]
    specs = tuple(parse_spec(item, folder) for item in items)
    names = [spec.name for spec in specs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DatasetError(f"data {twice[0]!r} is named twice: give each dataset a name of its own")
    return specs


def parse_spec(value: Any, folder: Path) -> DataSpec:
    """One dataset from a text or a mapping. Raises `DatasetError`."""
    if isinstance(value, DataSpec):
        return value
    if isinstance(value, str):
        fields = _parse_text(value)
    elif isinstance(value, Mapping):
        fields = {str(key): field for key, field in cast("Mapping[Any, Any]", value).items()}
    else:
        raise DatasetError(f"data must be a text or a mapping, not {value!r}: {_SPEC_FORM}")
    for key in LIST_FIELDS:
        if isinstance(fields.get(key), str):
            fields[key] = [fields[key]]
    if isinstance(path := fields.get("path"), str | Path) and str(path):
        fields["path"] = Path.cwd() / folder / Path(path).expanduser()  # links are followed by who opens it
    try:
        return DataSpec.model_validate(fields)
    except ValidationError as error:
        raise DatasetError(_describe_error(error, fields)) from None


def parse_idea_specs(texts: Iterable[str], folder: Path) -> tuple[DataSpec, ...]:
    """The data that an idea brings: its `NAME=PATH,...` texts, seen from the idea file's folder.

    Other texts are names or prose, which the planner reads. Paths must lie within the folder: an idea may have been
    written by a model, which has no business to point at other files of the machine. Raises `DatasetError`.
    """
    places: list[str] = []
    for text in map(str.strip, texts):
        name, equals, rest = text.partition("=")
        if equals and _NAME_PATTERN.fullmatch(name) and _PATHLIKE_PATTERN.search(rest):
            places.append(text)
    specs = parse_specs(places, folder)
    root = folder.resolve()
    for spec in specs:
        if spec.path is not None and not spec.path.resolve().is_relative_to(root):
            raise DatasetError(
                f"the idea's data {spec.name!r} lie outside of the idea file's folder: give them "
                f"yourself, with --data {spec.name}=PATH"
            )
    return specs


def _parse_text(text: str) -> dict[str, Any]:
    name, equals, rest = text.partition("=")
    if not equals or not rest:
        raise DatasetError(f"data {text!r} is not NAME=PATH: {_SPEC_FORM}")
    place, *options = re.split(r",(?=[a-z0-9_]+=)", rest)
    fields: dict[str, Any] = {"name": name.strip()}
    fields |= {"hub": place.removeprefix(HUB_PREFIX)} if place.startswith(HUB_PREFIX) else {"path": place}
    for option in options:
        key, _, value = option.partition("=")
        if key in LIST_FIELDS:
            fields.setdefault(key, []).append(value)
        elif key in fields:
            raise DatasetError(f"data {fields['name']!r}: {key}= is given twice")
        else:
            fields[key] = value
    return fields


def _describe_error(error: ValidationError, fields: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    name = fields.get("name", "?")
    if first["type"] == "value_error":
        return str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = ", ".join(option for option in DataSpec.model_fields if option not in ("name", "sha256"))
        return f"data {name!r}: there is no option {key!r}; there are {known}"
    return f"data {name!r}: {key}={first['input']!r} is wrong: {first['msg'].lower()}"
