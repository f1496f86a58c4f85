"""Changes of a script's text: constants, entries, anchored edits. The rest of the text stays unchanged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import jinja2

from labwright.models.offline.edits import compute_edits
from labwright.models.offline.study import STUDY_FOLDER, Scalar, ScriptEdit
from labwright.models.roles.experiment_code import NodeBrief, Program
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE

MAX_LINE_CHARACTERS = 118


@dataclass(frozen=True)
class Scripts:
    """The two files of a program."""

    experiment: str
    plots: str


def make_program(parent: NodeBrief | None, scripts: Scripts, *, title: str, plan: str, varies: str) -> Program:
    """Make a program as submitted: whole files for a draft, edits of the parent's files for a child."""
    before = parent.files if parent is not None else {}
    files, edits, removed = compute_edits(before, before | {ENTRY_FILE: scripts.experiment, PLOTS_FILE: scripts.plots})
    return Program(title=title, plan=plan, varies=varies, files=files, edits=edits, removed=removed)


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


def set_constant(source: str, name: str, value: Scalar) -> str:
    """Return the source with a constant set; unchanged if it has none of that name."""
    return re.sub(rf"(?m)^{name} = .+$", lambda _: f"{name} = {value!r}", source, count=1)


def scale_constants(source: str, factors: Mapping[str, float]) -> str:
    """Return the source with constants multiplied; whole numbers stay whole, and at least one."""
    for name, factor in factors.items():
        value = read_constant(source, name)
        if isinstance(value, int | float):
            scaled_value = max(1, round(value * factor)) if isinstance(value, int) else value * factor
            source = set_constant(source, name, scaled_value)
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
