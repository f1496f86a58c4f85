"""Ablations in the format of AblationBench's plans, gold tables and judges, parsed leniently.

Source: AblationBench, appendix A.1. Runs of this program execute `record.ablation.Ablation`, which is stricter.
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
    """An ablation with the benchmark's field names; `replacement` is empty for REMOVE."""

    name: str
    ablated_part: str = ""
    action: Action
    replacement: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Return the entry in one line, without its metrics."""
        by = f": {'; '.join(self.replacement)}" if self.replacement else ""
        return f"{self.name} ({self.action} {self.ablated_part}{by})"


@dataclass(frozen=True)
class AblationPlanFile:
    """The entries of a plan, best first, and one line per fault."""

    entries: tuple[PlannedAblation, ...] = ()
    faults: tuple[str, ...] = ()


def read_plan(lines: Iterable[str]) -> AblationPlanFile:
    """Read a plan from JSON lines; an invalid line is reported and skipped."""
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
    """Parse an entry from a file or a model. Raises `ValueError` if it has no name or action."""
    if not isinstance(given, Mapping):
        raise ValueError("not an object")
    fields = cast(Mapping[str, Any], given)
    name, action = _to_text(fields.get("name")), _to_text(fields.get("action")).upper()
    if not name:
        raise ValueError("no name")
    if action not in ACTIONS:
        raise ValueError(f"action {action!r} is not one of {', '.join(ACTIONS)}")
    return PlannedAblation(
        name=name,
        ablated_part=_to_text(fields.get("ablated_part")),
        action=action,
        replacement=_to_texts(fields.get("replacement")),
        metrics=_to_texts(fields.get("metrics")),
    )


def entries_to_lines(entries: Iterable[PlannedAblation]) -> str:
    """Format the entries as a plan file."""
    return "".join(one.model_dump_json() + "\n" for one in entries)


def _to_text(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _to_texts(value: object) -> tuple[str, ...]:
    """Return a tuple of strings from a string, a list, or an object (`key: value`)."""
    if isinstance(value, Mapping):
        return tuple(f"{key}: {one}" for key, one in cast(Mapping[str, object], value).items())
    listed = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    return tuple(text for one in listed if (text := _to_text(one)))


class RepeatedAblation(FrozenModel):
    """An entry that requests the same as an earlier one."""

    entry: PlannedAblation
    like: str = Field(description="name of the earlier entry")


def split_repeats(
    entries: Iterable[PlannedAblation],
) -> tuple[tuple[PlannedAblation, ...], tuple[RepeatedAblation, ...]]:
    """Return the new entries, and those that repeat an earlier one in other words."""
    kept, repeats = list[PlannedAblation](), list[RepeatedAblation]()
    for entry in entries:
        earlier = next((one for one in kept if is_same_change(one, entry)), None)
        if earlier is None:
            kept.append(entry)
        else:
            repeats.append(RepeatedAblation(entry=entry, like=earlier.name))
    return tuple(kept), tuple(repeats)


def is_same_change(one: PlannedAblation, other: PlannedAblation) -> bool:
    """Return whether two entries make the same change: by part, action and replacement.

    Names are ignored, since real plans call every entry "Ablation A".
    """
    return is_same_ablation(_to_ablation(one, "first"), _to_ablation(other, "second"))


def _to_ablation(entry: PlannedAblation, name: str) -> Ablation:
    """Convert the entry to the record's form; entries without a replacement are identified by their part."""
    bare = not entry.replacement
    return Ablation(
        name=name,
        part=entry.ablated_part or entry.name,
        why="-",
        metrics=entry.metrics or ("-",),
        action="remove" if bare else _VERBS[entry.action],  # pyright: ignore[reportArgumentType]
        replacement="" if bare else " ".join(sorted(entry.replacement)),
    )
