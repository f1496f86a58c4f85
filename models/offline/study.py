"""The one study of the offline model, as data read from `label_noise/study.toml`, and how to recognise it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from labwright.models.errors import CatalogueError
from labwright.models.roles.experiment_code import StudyInputs
from labwright.record.baseline_check import AblationAction
from labwright.record.schema import FrozenModel, Scalar
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import ErrorClass

STUDY_FOLDER = Path(__file__).parent / "label_noise"
"""Folder of the study: its data, its templates and its paper."""
FileName = Literal["experiment", "plots"]


class ScriptEdit(FrozenModel):
    """A change of a program's text: `find` becomes `replace`."""

    file: FileName
    find: str
    replace: str


class DraftSpec(FrozenModel):
    """One of the drafts."""

    title: str
    network: str
    plan: str
    faults: tuple[str, ...] = ()
    set: dict[str, Scalar] = Field(default_factory=dict, description="overrides of `draft_defaults`")


class PlantedFault(ScriptEdit):
    """A real mistake, planted as an edit; `fails_as` is only for the documentation and the tests."""

    name: str
    fails_as: ErrorClass


class FailureRepair(FrozenModel):
    """The repair of a failure: if `pattern` is found in the source it becomes `replacement`."""

    failure: ErrorClass
    pattern: str
    replacement: str
    says: str = ""

    def matches(self, source: str) -> bool:
        return re.search(self.pattern, source) is not None

    def apply(self, source: str) -> str:
        return re.sub(self.pattern, self.replacement, source)


class AgendaAddition(FrozenModel):
    """What a program of stage 3 adds to its parent."""

    name: str
    keywords: tuple[str, ...]
    title: str
    plan: str
    edits: tuple[ScriptEdit, ...] = ()
    scale: dict[str, float] = Field(default_factory=dict)


class AblationSpec(FrozenModel):
    """An ablation: the arm without one part, as the text of a Python dictionary.

    `part`, `action` and `replacement` describe it in a plan of ablations; a reviewer asks for an ablation that is
    `needed` and was not measured.
    """

    condition: str
    keywords: tuple[str, ...]
    title: str
    plan: str
    part: str
    action: AblationAction = "remove"
    replacement: str = ""
    needed: bool = False
    arm: str
    scale: dict[str, float] = Field(default_factory=dict)


class FigureSpec(FrozenModel):
    """A figure of the paper: a call in `figures.py.jinja`.

    `call` and `description` may contain {primary}, {title} and {main}: name and title of the primary metric, and the
    main dataset; and {better}: lower or higher.
    """

    name: str
    call: str
    description: str
    panels: int = Field(default=0, description="panels that show the main dataset; 0: one panel per dataset")


class OfflineStudy(FrozenModel):
    """The content of `study.toml`."""

    name: str
    title: str
    keywords: tuple[tuple[str, ...], ...]
    plan: DataPlan
    drafts: tuple[DraftSpec, ...]
    draft_defaults: dict[str, Scalar]
    faults: tuple[PlantedFault, ...]
    repairs: tuple[FailureRepair, ...]
    agenda: tuple[AgendaAddition, ...]
    agenda_faults: dict[int, str]
    ablations: tuple[AblationSpec, ...]
    figures: tuple[FigureSpec, ...]

    def find_fault(self, name: str) -> PlantedFault:
        return next(fault for fault in self.faults if fault.name == name)

    def __str__(self) -> str:
        return f"{self.name} ({self.title})"


@cache
def load_study() -> OfflineStudy:
    """Load `study.toml`."""
    data: dict[str, Any] = tomllib.loads((STUDY_FOLDER / "study.toml").read_text(encoding="utf-8"))
    return OfflineStudy.model_validate(data)


def find_study_by_idea(idea: Idea) -> OfflineStudy:
    """Return the study if an idea asks for it by its name, or by a phrase of each line of its keywords.

    Raises:
        CatalogueError: the idea is not the study's.
    """
    study = load_study()
    text = " ".join((idea.name.replace("_", " "), idea.title, idea.short_hypothesis, idea.abstract)).lower()
    if idea.name == study.name or all(any(phrase in text for phrase in line) for line in study.keywords):
        return study
    raise CatalogueError(
        f"the built-in offline model supports only one study, not the idea {idea.name!r}; it knows only: {study}. "
        "Compare models on your own table with --data NAME=FILE,target=COLUMN, see an example with scientist demo, or "
        "configure a model for any other idea, e.g. --model openai:gpt-5-mini or --model ollama:qwen3"
    )


def is_repository_study(study: StudyInputs) -> bool:
    """Return whether the cells of a study are runs of a repository's command."""
    return any(one.command for one in study.facts)


def is_scored(study: StudyInputs) -> bool:
    """Return whether predictions of the repository are scored, instead of a number being read."""
    return any(one.command and one.sizes for one in study.facts)
