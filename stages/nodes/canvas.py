"""doc"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from models.backend import Image
from models.door import Desk
from models.errors import ImagesRefused
from models.roles import ArrayBrief, FigureReviews, PlotInputs, Plots, VisionInputs
from record.events.nodes import Plotted, Reviewed
from record.folder import draft_of, read_source, seal, write_file
from record.nouns.data import arm_of, level_of
from record.nouns.figures import Figure, FigureReview
from record.nouns.measurements import Measurement
from record.nouns.nodes import Failure, Plotting
from review.figures import About, LintFinding, lint_all, refusing, remarks
from review.honesty import check_figures
from sandbox.job import Job
from stages.bench import Bench, enter
from stages.memory.beside import advice
from stages.memory.briefs import plotting_reference
from stages.nodes.array_summaries import array_briefs

@dataclass(frozen=True)
class Canvas:
    """What a node's plots may draw from: its own arrays, and those of other nodes by name."""

    node: str
    arrays: Path | None = None
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])

    def folders(self) -> Iterable[tuple[str, Path]]:
        """The folders of arrays, under the names that a plotting script finds them by."""
        if self.arrays is not None:
            yield "arrays", self.arrays
        yield from ((f"inputs/{name}", folder) for name, folder in self.inputs.items())

    async def briefs(self) -> tuple[ArrayBrief, ...]:
        """Every array, as a plotting script finds it, with its range."""
        return await array_briefs(self.folders())


@dataclass(frozen=True)
class Subject:
    """What figures are about, as their author and their reviewer are told."""

    kind: Literal["node", "aggregate", "paper"]
    plan: str
    measurements: tuple[Measurement, ...]
    """On validation, of the node; of an aggregate those of all replicates that it draws."""
    seeds: tuple[int, ...] = ()
    width: float = 5.5
    """Inches of the page that a figure may take."""


def subject_of(bench: Bench, canvas: Canvas) -> Subject:
    """The node itself; for an aggregate the node that was replicated."""
    nodes = bench.state.nodes
    node = nodes[canvas.node]
    if node.kind != "aggregate":
        return Subject("node", node.plan, node.measurements)
    parent = nodes[node.parent or ""]
    drawn = [nodes[name] for name in canvas.inputs]
    return Subject("aggregate", parent.plan, tuple(one for node in drawn for one in node.measurements),
                   tuple(node.seed for node in drawn))


@dataclass(frozen=True)
class Gallery:
    """Figures to look at, the folder they lie in, and what was drawn and reviewed in their place before."""

    folder: Path
    figures: tuple[Figure, ...]
    before: tuple[Plotting, ...] = ()
    canvas: Canvas | None = None
    """What they may have been drawn from, for a reviewer's data summary."""

    @property
    def shown(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.name.endswith(".png"))

    @property
    def new(self) -> tuple[Figure, ...]:
        """Those that nobody found readable before."""
        accepted = self.accepted
        return tuple(figure for figure in self.shown if figure.sha256 not in accepted)

    @property
    def accepted(self) -> dict[str, FigureReview]:
        """sha256 -> the review of a figure with these bytes that was found readable; the latest one."""
        return {figure.sha256: review for looked, figure, review in self._reviewed() if looked and review.readable}

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """Name -> what the latest review of a figure of that name said against it."""
        return {figure.name: review.issues for _, figure, review in self._reviewed()}

    def _reviewed(self) -> Iterable[tuple[bool, Figure, FigureReview]]:
        for plotting in self.before:
            reviews = {review.name: review for review in plotting.reviews or ()}
            yield from ((plotting.looked, figure, reviews[figure.name]) for figure in plotting.figures
                        if figure.name in reviews)
