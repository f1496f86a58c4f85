"""Paper templates: a folder each under templates_latex/, with a class file, a skeleton and template.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from record.nouns import Frozen

ROOT = Path(__file__).resolve().parents[2] / "templates_latex"


class TemplateError(Exception):
    """There is no such template. Who acts: the person who named it."""


class Template(Frozen):
    """A template as its template.toml describes it. `page_limit` counts pages of main text."""

    name: str
    folder: Path
    title: str
    class_file: str
    skeleton: str
    page_limit: int
    columns: int
    text_width: float
    """Inches."""


def load(name: str = "workshop", root: Path = ROOT) -> Template:
    """The template of that name. Raises `TemplateError`."""
    file = root / name / "template.toml"
    if not file.is_file():
        known = ", ".join(sorted(one.parent.name for one in root.glob("*/template.toml"))) or "none"
        raise TemplateError(f"no template {name!r} under {root}; there are: {known}")
    return Template.model_validate({"name": name, "folder": file.parent, **tomllib.loads(file.read_text())})
