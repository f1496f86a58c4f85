"""Parse the user's dataset specifications from the command line, the configuration file or an idea.

`NAME=PATH[,target=COL][,group=COL][,time=COL][,split=COL][,task=classification|regression|none][,drop=COL]...`, or
`NAME=hf:OWNER/SET[,config=..][,revision=..]...` for the Hugging Face hub; a mapping with the same keys in a file. A
comma that is not followed by `key=` is part of the preceding value, so paths and column names may contain commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from labwright.sandbox.job import DatasetError

HUB_PREFIX = "hf:"
LIST_FIELDS = ("drop", "categorical", "meta", "meta_shown")
"""Keys that may be given several times."""
_SPEC_FORM = "write NAME=PATH,target=COLUMN"
_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_PATHLIKE_PATTERN = re.compile(r"[/\\~]|\.[A-Za-z0-9]{1,8}(,|$)|^hf:")


class DataSpec(BaseModel):
    """One user dataset. Column names are those of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="", description="its name in plans and in `lab.data`")
    path: Path | None = Field(default=None, description="a CSV, Parquet or NPZ file, or a folder")
    hub: str = Field(default="", description="a dataset of the Hugging Face hub, as owner/name")
    config: str = Field(default="", description="its configuration on the hub")
    revision: str = Field(default="", description="its revision on the hub; empty: the latest")
    target: str = ""
    group: str = Field(default="", description="rows of one group stay in one split")
    time: str = Field(default="", description="column that orders the rows: train first, then validation, then test")
    text: str = Field(default="", description="the text column to use as the only feature")
    horizon: int = Field(default=0, ge=0, description="time series: how many rows ahead to predict")
    window: int = Field(default=1, ge=1, description="time series: rows of history per example")
    step: int = Field(default=1, ge=1, description="time series: rows from one example to the next")
    split: str = Field(default="", description="a column that contains train, validation or test")
    task: Literal["classification", "regression", "none"] | None = Field(
        default=None, description="None: inferred from the target; none: a folder that experiment code gets as a path"
    )
    drop: tuple[str, ...] = Field(default=(), description="columns to leave out")
    categorical: tuple[str, ...] = Field(default=(), description="numeric columns that contain category codes")
    literal: tuple[()] = Field(default=(), description="not used any more; older runs have recorded it, empty")
    meta: tuple[str, ...] = Field(
        default=(), description="columns that metrics may group by, hidden from experiment code"
    )
    meta_shown: tuple[str, ...] = Field(
        default=(), description="like meta, but experiment code sees these columns in train and dev"
    )
    dev_from: Literal["train", "validation"] = Field(
        default="train",
        description="the split from which dev is taken; use validation if the given train split is biased",
    )
    sha256: str = Field(default="", description="fingerprint of the data when the run began; changed data are rejected")

    @model_validator(mode="after")
    def _check_fields(self) -> DataSpec:
        faults = {
            f"needs either a path or a hub dataset: {_SPEC_FORM}": (self.path is None) == (not self.hub),
            "config= and revision= apply only to hub datasets": (self.config or self.revision) and not self.hub,
            "use either group= or time= (both only with horizon=)": self.group and self.time and not self.horizon,
            "horizon= needs time=COLUMN and a numeric target, without split= or text=": self.horizon
            and (not self.time or self.split or self.text or self.task == "classification"),
            "window= and step= are for time series: add horizon=ROWS": not self.horizon
            and max(self.window, self.step) > 1,
        }
        if not _NAME_PATTERN.fullmatch(self.name):
            raise ValueError(f"invalid dataset name {self.name!r}: use a letter, then up to 39 of a-z, A-Z, 0-9, _, -")
        for fault in (text for text, holds in faults.items() if holds):
            raise ValueError(f"data {self.name!r}: {fault}")
        named = [name for name in (self.target, self.group, self.time, self.split, self.text) if name]
        if twice := sorted(
            {name for name in named if named.count(name) > 1 or name in self.drop}
            | ({self.target} | set(self.drop)).intersection(self.metric_columns)
            | (set(self.meta) & set(self.meta_shown))
        ):
            raise ValueError(f"data {self.name!r}: column {twice[0]!r} has two roles: give it only one")
        return self

    @property
    def metric_columns(self) -> tuple[str, ...]:
        """The columns that metrics may group by, including the group column."""
        of_groups = [self.group] if self.group and not self.horizon else []
        return tuple(dict.fromkeys((*self.meta, *self.meta_shown, *of_groups)))


def parse_specs(value: Any, folder: Path) -> tuple[DataSpec, ...]:
    """Parse a string, a mapping or a list of these from a setting, an option or a file. Raises `DatasetError`.

    Relative paths are resolved against `folder`.
    """
    items = list(cast("Iterable[Any]", value)) if isinstance(value, list | tuple) else [value]
    specs = tuple(parse_spec(item, folder) for item in items)
    names = [spec.name for spec in specs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DatasetError(f"data {twice[0]!r} is given twice: give each dataset a unique name")
    return specs


def parse_spec(value: Any, folder: Path) -> DataSpec:
    """Parse one dataset from a string or a mapping. Raises `DatasetError`."""
    if isinstance(value, DataSpec):
        return value
    if isinstance(value, str):
        fields = _parse_text(value)
    elif isinstance(value, Mapping):
        fields = {str(key): field for key, field in cast("Mapping[Any, Any]", value).items()}
    else:
        raise DatasetError(f"data must be a string or a mapping, not {value!r}: {_SPEC_FORM}")
    for key in LIST_FIELDS:
        if isinstance(fields.get(key), str):
            fields[key] = [fields[key]]
    if isinstance(path := fields.get("path"), str | Path) and str(path):
        fields["path"] = Path.cwd() / folder / Path(path).expanduser()  # symlinks are resolved on opening
    try:
        return DataSpec.model_validate(fields)
    except ValidationError as error:
        raise DatasetError(_describe_error(error, fields)) from None


def parse_idea_specs(texts: Iterable[str], folder: Path) -> tuple[DataSpec, ...]:
    """Parse the datasets of an idea: its `NAME=PATH,...` strings, relative to the idea file's folder.

    Other strings are names or prose for the planner. Paths must be inside the folder, since the idea may have been
    written by a model, which must not get access to other files of the machine. Raises `DatasetError`.
    """
    given: list[str] = []
    for text in map(str.strip, texts):
        name, equals, rest = text.partition("=")
        if equals and _NAME_PATTERN.fullmatch(name) and _PATHLIKE_PATTERN.search(rest):
            given.append(text)
    specs = parse_specs(given, folder)
    root = folder.resolve()
    for spec in specs:
        if spec.path is not None and not spec.path.resolve().is_relative_to(root):
            raise DatasetError(
                f"the idea's data {spec.name!r} are outside the idea file's folder: to allow them, "
                f"use --data {spec.name}=PATH"
            )
    return specs


def _parse_text(text: str) -> dict[str, Any]:
    name, equals, rest = text.partition("=")
    if not equals or not rest or "," in name:
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
        known = ", ".join(option for option in DataSpec.model_fields if option not in ("name", "literal", "sha256"))
        return f"data {name!r}: unknown option {key!r}; the options are {known}"
    return f"data {name!r}: {key}={first['input']!r} is invalid: {first['msg'].lower()}"
