"""What figures are drawn from (recorded arrays, in a few numbers), what they are about, and what was drawn before."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.models.roles.figures import ArrayBrief, Range
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.nodes import PlotRun
from labwright.sandbox.safe_io import BadFile, list_names, load_array
from labwright.stages.run_context import RunContext

MAX_RANGE_VALUES = 1_000_000
"""Values of an array that are read; of more, every k-th row."""
MAX_RANGE_COLUMNS = 4
"""Columns of a table whose ranges are told one by one."""


def _read_array_brief(folder: Path, file: str, name: str) -> ArrayBrief | None:
    try:
        array = load_array(folder, file)
    except BadFile:
        return None
    shape, dtype = tuple(array.shape), str(array.dtype)
    if array.dtype.kind not in "biuf":
        return ArrayBrief(path=name, shape=shape, dtype=dtype)
    rows = array[:: max(1, array.size // MAX_RANGE_VALUES)] if array.ndim else array
    values = np.asarray(rows, dtype=np.float64)
    narrow = values.ndim == 2 and 2 <= values.shape[1] <= MAX_RANGE_COLUMNS
    ranges = [_compute_range(column) for column in (values.T if narrow else [values])]
    return ArrayBrief(
        path=name,
        shape=shape,
        dtype=dtype,
        missing=int(np.sum(~np.isfinite(values))),
        ranges=tuple(one for one in ranges if one is not None) if None not in ranges else (),
    )


def _compute_range(values: NDArray[np.float64]) -> Range | None:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        mean = finite.mean() if finite.size else np.nan
    if not np.isfinite(mean):  # none is finite, or their sum is not
        return None
    return Range(low=float(finite.min()), high=float(finite.max()), mean=float(mean))


@dataclass(frozen=True)
class PlotArrays:
    """What a node's plots may draw from: its own arrays, and those of other nodes by name."""

    node: str
    arrays: Path | None = None
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])

    async def read_briefs(self) -> tuple[ArrayBrief, ...]:
        """Every array, as a plotting script finds it, with its range. What is no array is left out."""
        folders = {"arrays": self.arrays} if self.arrays is not None else {}
        folders |= {f"inputs/{name}": folder for name, folder in self.inputs.items()}
        briefs = [
            await to_thread(_read_array_brief, folder, name, f"{prefix}/{name}")
            for prefix, folder in folders.items()
            for name in list_names(folder, "", ".npy")
        ]
        return tuple(brief for brief in briefs if brief is not None)


@dataclass(frozen=True)
class FigureSubject:
    """What figures are about, as their author and their reviewer are told."""

    kind: Literal["node", "aggregate", "paper"]
    plan: str
    measurements: tuple[Measurement, ...]
    """On validation, of the node; of an aggregate those of all replicates that it draws."""
    seeds: tuple[int, ...] = ()
    width: float = 5.5
    """Inches of the page that a figure may take."""


def build_figure_subject(context: RunContext, arrays: PlotArrays) -> FigureSubject:
    """The node itself; for an aggregate the node that was replicated."""
    nodes = context.state.nodes
    node = nodes[arrays.node]
    if node.kind != "aggregate":
        return FigureSubject("node", node.plan, node.measurements)
    parent = nodes[node.parent or ""]
    drawn = [nodes[name] for name in arrays.inputs]
    return FigureSubject(
        "aggregate",
        parent.plan,
        tuple(one for node in drawn for one in node.measurements),
        tuple(node.seed for node in drawn),
    )


@dataclass(frozen=True)
class FigureGallery:
    """Figures to look at, the folder they lie in, and what was drawn and reviewed in their place before."""

    folder: Path
    figures: tuple[Figure, ...]
    previous: tuple[PlotRun, ...] = ()
    arrays: PlotArrays | None = None
    """What they may have been drawn from, for a reviewer's data summary."""
    reviews_elsewhere: Mapping[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    """sha256 -> what was said of the very same picture where another node drew it, and it was found readable."""

    @property
    def shown_figures(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.name.endswith(".png"))

    @property
    def new_figures(self) -> tuple[Figure, ...]:
        """Those that nobody found readable before."""
        accepted = self.accepted_reviews
        return tuple(figure for figure in self.shown_figures if figure.sha256 not in accepted)

    @property
    def earlier_reviews(self) -> list[tuple[Figure, FigureReview, bool]]:
        """Every figure that was reviewed before, the earliest first, and whether a model looked at it."""
        reviews = [({review.name: review for review in one.reviews or ()}, one) for one in self.previous]
        return [
            (figure, by_name[figure.name], one.looked)
            for by_name, one in reviews
            for figure in one.figures
            if figure.name in by_name
        ]

    @property
    def accepted_reviews(self) -> dict[str, FigureReview]:
        """sha256 -> the review of a figure with these bytes that was found readable; the latest one."""
        return {
            **self.reviews_elsewhere,
            **{figure.sha256: review for figure, review, looked in self.earlier_reviews if looked and review.readable},
        }
