"""A study of the catalogue as data, and how it is recognised. One folder under `studies/` is one study.

The folder holds `study.toml` (read here) and the template `experiment.py.jinja`. What else it may hold takes the place
of what `common/` has for all studies: `plots.py.jinja`, `aggregate.py.jinja`, `figures.py.jinja`, `paper.py`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from models.errors import CatalogueError
from record.ablation import Change
from record.nouns.data import DataPlan
from record.nouns.figures import Placement
from record.nouns.frozen import Frozen, Scalar
from record.nouns.idea import Idea
from record.nouns.nodes import ErrorClass

STUDIES = Path(__file__).parent / "studies"
FileName = Literal["experiment", "plots"]


class Edit(Frozen):
    """A change of a program's text: `find` becomes `replace`."""

    file: FileName
    find: str
    replace: str


class DraftSpec(Frozen):
    """One way to begin."""

    title: str
    network: str
    plan: str
    faults: tuple[str, ...] = ()
    epochs: int | None = None
    hidden: int | None = None
    learning_rate: float | None = None
    values: dict[str, Scalar] = Field(default_factory=dict[str, Scalar], description="others of its template")


class Fault(Edit):
    """A real mistake, planted as an edit; `fails_as` is for the documentation and the tests alone."""

    name: str
    fails_as: ErrorClass


class Repair(Frozen):
    """What to do about a failure: where `pattern` is found in the source it becomes `replacement`."""

    failure: ErrorClass
    pattern: str
    replacement: str
    says: str


class Axis(Frozen):
    """A tuned constant and the values it may take."""

    name: str
    values: tuple[float, ...]


class Addition(Frozen):
    """What a program of stage 3 adds to its parent."""

    name: str
    keywords: tuple[str, ...]
    title: str
    plan: str
    edits: tuple[Edit, ...] = ()
    scale: dict[str, float] = Field(default_factory=dict)


class AblationSpec(Frozen):
    """One part less: the arm that takes the place of all others, as the text of a Python dictionary.

    `part`, `action` and `replacement` are what a plan of ablations says of it; a reviewer asks for what is `needed` and
    was not measured. `beside` are arms without which its result cannot be read, by condition; they are trained with it.
    """

    condition: str
    keywords: tuple[str, ...]
    title: str
    plan: str
    part: str
    action: Change = "remove"
    replacement: str = ""
    needed: bool = False
    arm: str
    beside: dict[str, str] = Field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    scale: dict[str, float] = Field(default_factory=dict)
    set: dict[str, Scalar] = Field(default_factory=dict)


class FigureSpec(Frozen):
    """A figure of the paper: a call in `figures.py.jinja`, drawn if what it needs was recorded.

    Of the figures of one slot, the first that can be drawn is. `call` and `description` may hold {primary}, {title} and
    {main}: name and title of the primary metric, and the main dataset; and {better}: lower or higher.
    """

    slot: str
    name: str
    call: str
    description: str
    array: str = Field(default="", description="a pattern that the path of a recorded array must match")
    metric: str = Field(default="", description="a metric that the plan must have")
    ablations: bool = Field(default=False, description="whether an ablation must have been measured")
    panels: Literal[1, 2, 3, "datasets", "levels"] = Field(default=1, description="side by side")
    shows: Literal["all", "main"] = Field(default="all", description="all datasets, or the main one")
    placement: Placement = "main"


class Study(Frozen):
    """A study of the catalogue. What has a default need not stand in `study.toml`."""

    home: Path = Field(description="its folder")
    name: str
    title: str
    keywords: tuple[tuple[str, ...], ...]
    plan: DataPlan
    drafts: tuple[DraftSpec, ...] = Field(min_length=1)
    draft_defaults: dict[str, Scalar]
    grows: str = Field(default="hidden", description="the one of `draft_defaults` that doubles when drafts begin again")
    shrinks: dict[ErrorClass, str] = Field(default={"timeout": "EPOCHS", "memory": "BATCH"},
                                           description="the constant that is halved after such a failure")
    faults: tuple[Fault, ...] = ()
    repairs: tuple[Repair, ...] = ()
    grid: tuple[Axis, ...] = Field(min_length=1)
    agenda: tuple[Addition, ...] = Field(min_length=1)
    agenda_faults: dict[int, str] = Field(default_factory=dict[int, str])
    ablations: tuple[AblationSpec, ...] = Field(min_length=1)
    labels: dict[str, tuple[str, str]] = Field(default_factory=dict)
    figures: tuple[FigureSpec, ...] = Field(default=(), description="of the paper; empty: those of `common/`")
    ablation_labels: dict[str, str] = Field(default_factory=dict[str, str],
                                            description="ablated arm -> how a figure calls it")

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        named = {*(name for draft in self.drafts for name in draft.faults), *self.agenda_faults.values()}
        if unknown := sorted(named - {fault.name for fault in self.faults}):
            raise ValueError(f"no fault is called {unknown[0]!r}: there are {[fault.name for fault in self.faults]!r}")
        if self.grows not in self.draft_defaults:
            raise ValueError(f"grows = {self.grows!r} is none of draft_defaults {sorted(self.draft_defaults)!r}, so "
                             "drafts that begin again would not differ")
        return self

    def fault(self, name: str) -> Fault:
        return next(fault for fault in self.faults if fault.name == name)


@cache
def catalogue() -> tuple[Study, ...]:
    """Every study, in the order of their folders' names."""
    return tuple(_load(path.parent) for path in sorted(STUDIES.glob("*/study.toml")))


def _load(folder: Path) -> Study:
    data: dict[str, Any] = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
    return Study.model_validate({"home": folder} | data)


def study_of_idea(idea: Idea) -> Study:
    """The study that an idea asks for, by its name or by the words of its title and hypothesis.

    Raises:
        CatalogueError: none does.
    """
    named = [study for study in catalogue() if study.name == idea.name]
    text = " ".join((idea.name.replace("_", " "), idea.title, idea.short_hypothesis, idea.abstract)).lower()
    return _only([*named, *(study for study in catalogue() if _met(study, text))], f"the idea {idea.name!r}")


def study_of_plan(plan: DataPlan) -> Study:
    """The study that a data plan belongs to. Raises `CatalogueError` if there is none."""
    own = [study for study in catalogue() if study.plan.task == plan.task]
    text = f"{plan.task} {plan.factor} {plan.notes}".lower()
    found = [*own, *(study for study in catalogue() if _met(study, text))]
    return _only(found, f"the data plan for {plan.task[:60]!r}")


def _met(study: Study, text: str) -> bool:
    return bool(study.keywords) and all(any(phrase in text for phrase in line) for line in study.keywords)


def _only(found: list[Study], what: str) -> Study:
    if found:
        return found[0]
    known = ", ".join(f"{study.name} ({study.title})" for study in catalogue())
    raise CatalogueError(
        f"the offline model has no study for {what}; it knows only: {known}. Configure a model for any other idea, "
        "e.g. --model openai:gpt-5-mini or --model ollama:qwen3"
    )
