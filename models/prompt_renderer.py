"""Render prompts from typed inputs: `<role>.md` in the folder of the role has a block `system`, the same for all calls
of the role in a run, and a block `user`. Partials begin with an underscore.

Providers cache the common prefix of requests, so shared text comes first. The prompts of all roles that know the study
begin alike (`_study.md`), and so do those of roles that see only its figures (`_drawn.md`). Then comes the text of the
role, then the text of the call, most stable part first. `system` contains nothing that may change during a run (limits,
devices, packages, notes).

Templates see the fields of the inputs by name, and `images`, the number of images attached to the prompt. Values
are never interpreted as templates. `models.prompt_filters` decides how much of a value is shown.
"""

import functools
import re
from inspect import isfunction
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, DictLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel

from labwright.models import prompt_filters
from labwright.models.backend import Prompt
from labwright.models.roles.role import PROMPTS_FOLDER, AnyRole
from labwright.record.machine import BENCHMARK_NETWORK

PROMPT_FILTERS = {
    name: one
    for name, one in vars(prompt_filters).items()
    if isfunction(one) and one.__module__ == prompt_filters.__name__ and not name.startswith("_")
}


def render(role: AnyRole, inputs: BaseModel, *, images: int = 0, loader: BaseLoader | None = None) -> Prompt:
    """Render the prompt of a role. Raises `jinja2.UndefinedError` if the inputs lack a field of the template."""
    template = _make_environment(loader, role.folder).get_template(f"{role.name}.md")
    values = {name: getattr(inputs, name) for name in type(inputs).model_fields}
    context = template.new_context({**values, "images": images})
    system, user = (
        _collapse_blank_lines("".join(template.blocks[block](context))).strip() + "\n" for block in ("system", "user")
    )
    return Prompt(system=system, user=user)


def _collapse_blank_lines(text: str) -> str:
    """Collapse runs of blank lines, except in fenced blocks: edits quote these and must match them exactly."""
    return re.sub(
        r"^(`{3,})[^\n`]*\n.*?^\1$|\n{3,}",
        lambda run: run[0] if run[1] else "\n\n",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


@functools.cache
def _make_environment(loader: BaseLoader | None, folder: Path) -> ImmutableSandboxedEnvironment:
    # Read all files at once: if the program is updated during a run, the run keeps its prompts.
    paths = (path for one in (PROMPTS_FOLDER, folder) for path in one.glob("*.md"))
    files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    environment = ImmutableSandboxedEnvironment(
        loader=loader or DictLoader(files),
        undefined=StrictUndefined,
        autoescape=False,  # text for a model, not markup
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # needed for partials to end their last line
    )
    filters: dict[str, Any] = environment.filters
    filters.update(PROMPT_FILTERS)
    names: dict[str, Any] = environment.globals
    names.update(length=prompt_filters.FIELD_LENGTHS, network_timed=BENCHMARK_NETWORK)
    return environment
