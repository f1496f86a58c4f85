"""Templates of the page. Whatever they print is text of others: escaped, and without control characters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from fastapi import HTTPException
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from labwright.inspector.cells import cells_text, left_text
from labwright.inspector.headline import score_of_paper
from labwright.inspector.render import ahead_text
from labwright.inspector.text import cached, count, dollars, duration, plain, printable, short
from labwright.inspector.tree import branch_text
from labwright.inspector.web.drawing import KIND_SHAPE, MARKS
from labwright.inspector.web.node_table import TEXTS
from labwright.record.claims.clauses import lost_seeds
from labwright.record.nouns.nodes import STAGES

HERE = Path(__file__).parent
T = TypeVar("T")


def _safe(value: Any) -> Any:
    """What a template prints; markup that a template itself made stays as it is."""
    if value is None:
        return ""
    return printable(value) if type(value) is str else value


def _number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _fixed(value: float | None, digits: int, sign: bool = False) -> str:
    """With so many digits after the point; no sign before what prints as zero."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return text if float(text) else text.lstrip("+-")


def _size(number: int) -> str:
    return f"{number} B" if number < 1000 else f"{number / 1e3:.0f} kB" if number < 1e6 else f"{number / 1e6:.1f} MB"


def _when(at: str | float | None) -> str:
    if not at:
        return "–"
    then = datetime.fromisoformat(at).astimezone() if isinstance(at, str) else datetime.fromtimestamp(at)
    return then.strftime("%d %b %H:%M:%S")


def or_404(value: T | None, why: str) -> T:
    """What a page shows. Raises `HTTPException` (404) where there is nothing."""
    if value is None:
        raise HTTPException(404, why)
    return value


class Pages:
    """Renders templates and single blocks of them."""

    def __init__(self, addresses: Mapping[str, str], *, form_token: str = "", single: bool = False) -> None:
        """`addresses` are those of script and style sheet; without a `form_token` no form steers. `single`: one run."""
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_safe,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        cast("dict[str, Any]", self._environment.filters).update(
            plain=plain,
            short=short,
            duration=duration,
            tokens=count,
            size=_size,
            when=_when,
            origin=branch_text,
            number=_number,
            fixed=_fixed,
            left=left_text,
            cells=cells_text,
            score=score_of_paper,
            forecast=ahead_text,
        )
        cast("dict[str, Any]", self._environment.globals).update(
            addresses,
            form_token=form_token,
            single=single,
            dollars=dollars,
            cached=cached,
            shape_of=KIND_SHAPE,
            marks=MARKS,
            stage_names=STAGES,
            texts=TEXTS,
            lost=lost_seeds,
        )

    def answer(self, name: str, *, part: bool = True, **values: Any) -> HTMLResponse:
        """A page; of one that is made of a part, the part alone or the whole."""
        return HTMLResponse(self.page(name if part else f"{name}_page", **values))

    def page(self, name: str, **values: Any) -> str:
        return self._environment.get_template(f"{name}.html.jinja").render(**values)

    def piece(self, name: str, piece: str, *values: Any) -> str:
        """What a macro of a template makes."""
        return str(getattr(self._environment.get_template(f"{name}.html.jinja").module, piece)(*values)).strip()
