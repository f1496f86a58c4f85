"""An ablation as plans, gold tables and judges of AblationBench have it, and files of plans, read leniently.

Source: AblationBench, appendix A.1. `record.ablation.Ablation` is what a run of ours carries out; this form is looser.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from pydantic import Field

from labwright.record.ablation import Ablation, is_same_ablation
from labwright.record.schema.frozen_model import FrozenModel

Action = Literal["REMOVE", "REPLACE", "ADD"]
ACTIONS: tuple[Action, ...] = get_args(Action)
_VERBS = {"REMOVE": "remove", "REPLACE": "replace", "ADD": "add"}


class PlannedAblation(FrozenModel):
    """One ablation. The benchmark's field names; `replacement` is empty for REMOVE."""

    name: str
    ablated_part: str = ""
    action: Action
    replacement: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The entry in one line, without its metrics."""
        by = f": {'; '.join(self.replacement)}" if self.replacement else ""
        return f"{self.name} ({self.action} {self.ablated_part}{by})"


@dataclass(frozen=True)
class AblationPlanFile:
    """The entries of a plan, best first, and what could not be read, a line each."""

    entries: tuple[PlannedAblation, ...] = ()
    faults: tuple[str, ...] = ()


def read_plan(lines: Iterable[str]) -> AblationPlanFile:
    """A plan from lines of JSON. A line that is no entry costs that line alone."""
    entries, faults = list[PlannedAblation](), list[str]()
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entries.append(parse_entry(json.loads(line)))
            except json.JSONDecodeError:
                faults.append(f"line {number}: not JSON")
            except ValueError as error:
                faults.append(f"line {number}: {error}")
    return AblationPlanFile(tuple(entries), tuple(faults))


def parse_entry(given: object) -> PlannedAblation:
    """An entry from what a file or a model has. Raises `ValueError` where there is no name or no action."""
    if not isinstance(given, Mapping):
        raise ValueError("not an object")
    fields = cast(Mapping[str, Any], given)
    name, action = _to_text(fields.get("name")), _to_text(fields.get("action")).upper()
    if not name:
        raise ValueError("no name")
    if action not in ACTIONS:
        raise ValueError(f"action {action!r} is none of {', '.join(ACTIONS)}")
    return PlannedAblation(
        name=name,
        ablated_part=_to_text(fields.get("ablated_part")),
        action=action,
        replacement=_to_texts(fields.get("replacement")),
        metrics=_to_texts(fields.get("metrics")),
    )


def entries_to_lines(entries: Iterable[PlannedAblation]) -> str:
    """The entries as a file of a plan."""
    return "".join(one.model_dump_json() + "\n" for one in entries)


def _to_text(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _to_texts(value: object) -> tuple[str, ...]:
    """A list of texts from a text, a list of anything, or an object (`key: value`)."""
    if isinstance(value, Mapping):
        return tuple(f"{key}: {one}" for key, one in cast(Mapping[str, object], value).items())
    listed = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    return tuple(text for one in listed if (text := _to_text(one)))


class RepeatedAblation(FrozenModel):
    """An entry that asks for what an earlier one asks for."""

    entry: PlannedAblation
    like: str = Field(description="name of the earlier entry")


def split_repeats(
    entries: Iterable[PlannedAblation],
) -> tuple[tuple[PlannedAblation, ...], tuple[RepeatedAblation, ...]]:
    """The entries that are new, and those that repeat an earlier one in other words."""
    kept, repeats = list[PlannedAblation](), list[RepeatedAblation]()
    for entry in entries:
        earlier = next((one for one in kept if is_same_change(one, entry)), None)
        if earlier is None:
            kept.append(entry)
        else:
            repeats.append(RepeatedAblation(entry=entry, like=earlier.name))
    return tuple(kept), tuple(repeats)


def is_same_change(one: PlannedAblation, other: PlannedAblation) -> bool:
    """Whether two entries make the same change: by part, action and replacement. Names say nothing here: real plans
    call every entry "Ablation A"."""
    return is_same_ablation(_to_ablation(one, "first"), _to_ablation(other, "second"))


def _to_ablation(entry: PlannedAblation, name: str) -> Ablation:
    """The entry as the record has ablations; entries without a replacement are taken by their part alone."""
    bare = not entry.replacement
    return Ablation(
        name=name,
        part=entry.ablated_part or entry.name,
        why="-",
        metrics=entry.metrics or ("-",),
        action="remove" if bare else _VERBS[entry.action],  # pyright: ignore[reportArgumentType]
        replacement="" if bare else " ".join(sorted(entry.replacement)),
    )
