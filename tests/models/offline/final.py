"""The paper's figures drawn in real kernels, as a run draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labwright.models.roles.assessing import Statistic
from labwright.models.roles.figures import FigureScript, FigureStyle
from labwright.review.figures import About, lint_all, refusing
from labwright.sandbox.job import Executor
from labwright.stages.nodes.canvas import Canvas
from labwright.stages.paper.figures import SUFFIXES, Studio, draw_all


async def draw_final(
    executor: Executor,
    folder: Path,
    script: FigureScript,
    *,
    inputs: Mapping[str, Path],
    statistics: tuple[Statistic, ...],
) -> None:
    """Every figure is drawn as vector and pixel file, passes the lint, and embeds no bitmap fonts."""
    drawn = await draw_all(
        Studio(
            executor=executor,
            folder=folder,
            canvas=Canvas("", inputs=dict(inputs)),
            statistics=statistics,
            style=FigureStyle(text_width=5.5, column_width=5.5),
            seconds=120.0,
        ),
        script,
    )
    assert [one.failure for one in drawn] == [None] * len(script.figures)
    found = lint_all([figure for one in drawn for figure in one.figures], folder / "figures", About("paper", seeds=2))
    refused = {name: refusing(one) for name, one in found.items() if refusing(one)}
    assert refused == {}, refused
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{one.name}{suffix}" for one in script.figures for suffix in SUFFIXES
    }
    assert not any(b"/Type3" in path.read_bytes() for path in (folder / "figures").glob("*.pdf"))
