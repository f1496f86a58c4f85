"""The one study of the offline model, as data read from `label_noise/study.toml`, how to recognise it, and edits of its
scripts."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jinja2
from pydantic import Field

from labwright.models.errors import CatalogueError
from labwright.models.roles.experiment_code import Program, StudyInputs
from labwright.record.baseline_check import AblationAction
from labwright.record.schema import FrozenModel, Scalar
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import ErrorClass
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, WholeFile

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


# Changes of a script's text: constants, entries, anchored edits. The rest of the text stays unchanged.

MAX_LINE_CHARACTERS = 118


@dataclass(frozen=True)
class Scripts:
    """The two files of a program."""

    experiment: str
    plots: str


def make_program(scripts: Scripts, *, title: str, plan: str, varies: str) -> Program:
    """Make a program as submitted, with both files whole."""
    files = (WholeFile(path=ENTRY_FILE, text=scripts.experiment), WholeFile(path=PLOTS_FILE, text=scripts.plots))
    return Program(title=title, plan=plan, varies=varies, files=files)


@cache
def _make_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader((STUDY_FOLDER, STUDY_FOLDER.parent)),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render_template(template: str, **values: object) -> str:
    """Render a template of the study; ends with one newline."""
    return _make_environment().get_template(template).render(**values).rstrip() + "\n"


def read_constant(source: str, name: str) -> Scalar | list[str]:
    """Return the value of an upper-case constant of a source. Raises `KeyError` if it has none of that name."""
    match = re.search(rf"(?m)^{name} = (.+)$", source)
    if match is None:
        raise KeyError(name)
    return ast.literal_eval(match[1])


def scale_constants(source: str, factors: Mapping[str, float]) -> str:
    """Return the source with whole constants multiplied and rounded, at least one."""
    for name, factor in factors.items():
        value = read_constant(source, name)
        assert isinstance(value, int)
        source = re.sub(rf"(?m)^{name} = .+$", f"{name} = {max(1, round(value * factor))}", source, count=1)
    return source


def add_entry(source: str, opening: str, line: str) -> str:
    """Return the source with a line added before the first line after `opening` that begins with a closing bracket."""
    pattern = rf"(?ms)^({re.escape(opening)}\n.*?)^([}}\])])"
    return re.sub(pattern, lambda match: f"{match[1]}{line}\n{match[2]}", source, count=1)


def is_applicable(scripts: Scripts, edits: Iterable[ScriptEdit]) -> bool:
    """Return whether every edit matches, and none was applied before."""
    for edit in edits:
        text = getattr(scripts, edit.file)
        if edit.find not in text or edit.replace in text:
            return False
    return True


def apply_edits(scripts: Scripts, edits: Iterable[ScriptEdit]) -> Scripts:
    """Return the scripts with every matching edit applied."""
    for edit in edits:
        text: str = getattr(scripts, edit.file)
        scripts = replace(scripts, **{edit.file: text.replace(edit.find, edit.replace, 1)})
    return scripts
