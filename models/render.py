"""Prompts from typed inputs: `prompts/<role>.md` has a block `system`, constant over a run as far as the role allows,
and a block `user`. Partials begin with an underscore.

Templates see the fields of the inputs by name, and `images`, the number of pictures that go with the prompt. Values
are never read as templates. Long values are cut in the middle with a visible mark, so every prompt has a bounded size.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, DictLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel

from models.backend import Prompt
from models.roles import ClaimLine, Role
from record.nouns.data import DataPlan, arm_of
from record.nouns.measurements import Measurement

PROMPTS = Path(__file__).parent / "prompts"


def render(role: Role, inputs: BaseModel, *, images: int = 0, loader: BaseLoader | None = None) -> Prompt:
    """The prompt of a role. Raises `jinja2.UndefinedError` if the template names a field that the inputs lack."""
    template = _environment(loader).get_template(f"{role}.md")
    values = {name: getattr(inputs, name) for name in type(inputs).model_fields}
    context = template.new_context({**values, "images": images})
    system, user = ("".join(template.blocks[block](context)) for block in ("system", "user"))
    return Prompt(system=_tidy(system), user=_tidy(user))


@functools.cache
def _environment(loader: BaseLoader | None) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=loader or DictLoader(_files()),
        undefined=StrictUndefined,
        autoescape=False,  # text for a model, not markup
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # so that a partial ends its last line
    )
    filters: dict[str, Any] = environment.filters
    filters.update(middle=middle, oneline=oneline, newest=newest, number=number)
    filters.update(fence=fence, table=table, conditions=conditions, claims=claims)
    return environment


def _files() -> dict[str, str]:
    """Every prompt file, read at once: a program that is replaced under a run keeps the words that it began with."""
    return {path.name: path.read_text(encoding="utf-8") for path in PROMPTS.glob("*.md")}


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def middle(text: str, limit: int) -> str:
    """The text, or its head and tail with a mark between that says how much was left out; about `limit` characters."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 5, limit - limit * 2 // 5
    return f"{text[:head]}\n[... {len(text) - limit} characters left out here ...]\n{text[-tail:]}"


def oneline(text: str, limit: int = 200) -> str:
    """The text on one line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 4] + " ..."


def newest(items: Sequence[object], limit: int) -> Sequence[object]:
    """The last `limit` items."""
    return items[-limit:]


def number(value: float | None) -> str:
    """A number to six digits, or 'unknown'."""
    return "unknown" if value is None else f"{value:.6g}"


def fence(text: str, limit: int, language: str = "") -> str:
    """The text as a fenced block, cut in the middle; the fence is longer than any within."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{middle(text.rstrip(), limit)}\n{ticks}"


def conditions(plan: DataPlan, ablations: bool) -> tuple[str, ...]:
    """The plan's conditions whose arm is an ablation, or those whose arm is not."""
    arms = {arm.name for arm in plan.arms if (arm.role == "ablation") == ablations}
    return tuple(condition for condition in plan.conditions if arm_of(condition) in arms)


def table(measurements: Iterable[Measurement], limit: int = 120, plan: DataPlan | None = None) -> str:
    """One line a (dataset, condition, split): every value by name, in the order of recording.

    With a plan, scores that it does not name are left out: a submission is scored by all metrics that fit.
    """
    named = {metric.name for metric in plan.metrics} if plan else set[str]()
    rows: dict[tuple[str, str, str], list[str]] = {}
    for m in measurements:
        if named and m.name not in named and m.grade in ("scored", "computed"):
            continue
        said = " (said by the code)" if m.grade == "logged" else ""
        rows.setdefault((m.dataset, m.condition, m.split), []).append(f"{m.name} {number(m.value)}{said}")
    lines = [f"- {data}, {arm}, {split}: {', '.join(values)}" for (data, arm, split), values in rows.items()]
    left = len(lines) - limit
    return "\n".join(lines[:limit] + ([f"[... {left} more lines left out ...]"] if left > 0 else [])) or "- none"


def claims(lines: Sequence[ClaimLine], limit: int = 240) -> str:
    """One line a claim: its key without ending, what it is of, and what each ending prints."""
    forms: dict[str, list[ClaimLine]] = {}
    for line in lines:
        forms.setdefault(line.key.rpartition(".")[0], []).append(line)
    shown = [_claim(stem, of) for stem, of in list(forms.items())[:limit]]
    left = len(forms) - limit
    return "\n".join(shown + ([f"[... {left} more claims left out ...]"] if left > 0 else []))


def _claim(stem: str, forms: Sequence[ClaimLine]) -> str:
    said, _, what = forms[0].meaning.partition(": ")
    endings = ", ".join(f"`.{one.key.rpartition('.')[2]}` {oneline(one.printed, 40)}" for one in forms)
    return f"- `{stem}`: {oneline(what or said, 140)}; {endings}"
