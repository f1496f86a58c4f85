"""The paper's figures drawn in real kernels, as a run draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labwright.models.roles.figures import FigureScript, FigureStyle
from labwright.record.claims.estimates import Claim
from labwright.review.figures import FigureContext, lint_figure_folder, list_refusals
from labwright.sandbox.job import Executor
from labwright.stages.nodes.node_plots import PlotArrays
from labwright.stages.paper.figures import FIGURE_SUFFIXES, DrawingContext, draw_script


async def draw_final_figures(
    executor: Executor,
    folder: Path,
    script: FigureScript,
    *,
    inputs: Mapping[str, tuple[Path, ...]],
    statistics: tuple[Claim, ...],
) -> None:
    """Every figure is drawn as vector and pixel file, passes the lint, and embeds no bitmap fonts."""
    drawn = await draw_script(
        DrawingContext(
            executor=executor,
            folder=folder,
            arrays=PlotArrays("", inputs=dict(inputs)),
            statistics=statistics,
            style=FigureStyle(text_width=5.5, column_width=5.5),
            seconds=120.0,
        ),
        script,
    )
    assert [one.failure for one in drawn] == [None] * len(script.figures)
    found = lint_figure_folder(
        [figure for one in drawn for figure in one.figures], folder / "figures", FigureContext(in_paper=True)
    )
    refused = {name: list_refusals(one) for name, one in found.items() if list_refusals(one)}
    assert refused == {}, refused
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{one.name}{suffix}" for one in script.figures for suffix in FIGURE_SUFFIXES
    }
    assert not any(b"/Type3" in path.read_bytes() for path in (folder / "figures").glob("*.pdf"))
