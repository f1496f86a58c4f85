"""How a study calls things, and phrases with marks of `models.offline.claims` that name datasets, levels and numbers.

A study gives its words (`Words`); the plan gives arms, levels, datasets and metrics. A cell is a dataset and a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from models.offline.claims import Claims, listed
from record.nouns.data import DataPlan, Level

Cell = tuple[str, str]


def on_datasets(names: Sequence[str]) -> str:
    """Datasets as a phrase: `on a and b`."""
    return "on " + listed([rf"\textsf{{{name.replace('_', ' ')}}}" for name in names])


@dataclass(frozen=True)
class Words:
    """How a study calls things. `level` may hold {value}, which prints a level's number."""

    method: str = "the method"
    on: Callable[[Sequence[str]], str] = on_datasets
    on_all: str = "on all datasets"
    level: str = r"at level {value}"
    at_all: str = "at all levels"
    ablated: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arm -> what is done to the method, as a noun or a gerund; in the order in which a paper treats them."""


@dataclass(frozen=True)
class Phrases:
    """Phrases; an empty string where there is nothing to say."""

    claims: Claims
    words: Words = field(default_factory=Words)

    # --- names ------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> DataPlan:
        return self.claims.inputs.data_plan

    @cached_property
    def baseline(self) -> str:
        return next((arm.name for arm in self.plan.arms if arm.role == "baseline"), "")

    @cached_property
    def method(self) -> str:
        return next((arm.name for arm in self.plan.arms if arm.role == "method"), "")

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels; one empty name where the plan has none."""
        return tuple(level.name for level in self.plan.levels) or ("",)

    @cached_property
    def datasets(self) -> list[str]:
        """Datasets with a result, the plan's main one first; the plan's main one if there are none."""
        planned = [use.name for use in self.plan.datasets]
        measured = {line.key.split("/")[1] for line in self.claims.inputs.results if line.key.count("/") >= 3}
        return [name for name in planned if name in measured] or planned[:1]

    @cached_property
    def split(self) -> str:
        """What the results are on: test, or validation where no test predictions were scored."""
        return "test" if any(line.key.startswith("test/") for line in self.claims.inputs.results) else "validation"

    def metric(self, name: str = "") -> str:
        """A metric as a word; the primary one without a name."""
        found = next((one for one in self.plan.metrics if one.name == (name or self.plan.primary.name)), None)
        return found.title or found.name.replace("_", " ") if found else name.replace("_", " ")

    def at(self, level: str) -> str:
        """A level as a phrase; its title where its number cannot be printed."""
        found: Level | None = next((one for one in self.plan.levels if one.name == level), None)
        if found is None:
            return ""
        if self.claims.has("s", f"level.{level}"):
            return self.words.level.format(value=f"<s:level.{level}>")
        return self.words.level.format(value=rf"\textsf{{{found.title or found.name.replace('_', ' ')}}}")

    @cached_property
    def cells(self) -> list[Cell]:
        """Every dataset at every level."""
        return [(dataset, level) for level in self.levels for dataset in self.datasets]

    def where(self, cells: Iterable[Cell]) -> str:
        """Cells as one phrase, `throughout` for all of them."""
        chosen = set(cells)
        if len(self.cells) > 1 and chosen == set(self.cells):
            return "throughout"
        levels: dict[tuple[str, ...], list[str]] = {}
        for level in self.levels:
            if here := tuple(name for name in self.datasets if (name, level) in chosen):
                levels.setdefault(here, []).append(level)
        return ", and ".join(f"{self._on(here)} {self._at(at)}".strip() for here, at in levels.items())

    def _on(self, datasets: Sequence[str]) -> str:
        every = len(datasets) == len(self.datasets) > 1
        return self.words.on_all if every else self.words.on(datasets)

    def _at(self, levels: Sequence[str]) -> str:
        every = len(levels) == len(self.levels) > 1
        return self.words.at_all if every else listed([self.at(level) for level in levels])

    # --- numbers ----------------------------------------------------------------------------------------------------

    def condition(self, arm: str, level: str) -> str:
        return f"{arm}@{level}" if level else arm

    def result(self, cell: Cell, arm: str, *, metric: str = "", form: str = "pm") -> str:
        key = f"{self.split}/{cell[0]}/{metric or self.plan.primary.name}/{self.condition(arm, cell[1])}"
        return f"<r:{key}.{form}>"

    def difference(self, cell: Cell, arm: str, other: str, metric: str = "") -> str:
        """`arm` minus `other` with its interval, if it is recorded that way round; else nothing."""
        a, b = (self.condition(one, cell[1]) for one in (arm, other))
        key = f"diff/{cell[0]}/{metric or self.plan.primary.name}/{a}~{b}"
        if not (self.claims.has("r", f"{key}.mean") and self.claims.has("r", f"{key}.ci")):
            return ""
        return f"<r:{key}.mean> <r:{key}.ci>"


def capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
