"""Inputs of figures: summaries of the recorded arrays, the subject, and earlier figures with their reviews."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labwright.models.roles.figures import ArrayBrief, Range
from labwright.record.result_folders import list_result_folders
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.figures import Figure, FigureReview
from labwright.record.schema.nodes import Node, PlotRun
from labwright.record.untrusted_files import BadFile, list_names, load_array
from labwright.stages.run_context import RunContext

MAX_RANGE_VALUES = 1_000_000
"""Maximum number of values read from an array; larger arrays are subsampled by rows."""
MAX_RANGE_COLUMNS = 4
"""Maximum number of columns whose ranges are reported separately."""


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
    if not np.isfinite(mean):  # no value is finite, or their sum overflows
        return None
    return Range(low=float(finite.min()), high=float(finite.max()), mean=float(mean))


def list_array_folders(context: RunContext, node: Node) -> tuple[Path, ...]:
    """Return the folders of a node's arrays, one for each of its cells."""
    return tuple(one.path / "arrays" for one in list_result_folders(context.state, context.folder, node))


@dataclass(frozen=True)
class PlotArrays:
    """Arrays that a node's plots may use: its own, and those of other nodes by name."""

    node: str
    arrays: tuple[Path, ...] = ()
    """Folders of its own arrays, one for each of its cells."""
    inputs: dict[str, tuple[Path, ...]] = field(default_factory=dict[str, tuple[Path, ...]])

    @property
    def places(self) -> dict[str, tuple[Path, ...]]:
        """Place of the arrays for plotting scripts -> folders."""
        places = {"arrays": self.arrays} if self.arrays else {}
        places |= {f"inputs/{name}": folders for name, folders in self.inputs.items()}
        return {place: tuple(one for one in folders if one.is_dir()) for place, folders in places.items()}

    async def read_briefs(self) -> tuple[ArrayBrief, ...]:
        """Return a brief of every array with its path in plotting scripts and its range; skip other files."""
        briefs = [
            await to_thread(_read_array_brief, folder, name, f"{place}/{name}")
            for place, folders in self.places.items()
            for folder in folders
            for name in list_names(folder, "", ".npy")
        ]
        return tuple(brief for brief in briefs if brief is not None)


@dataclass(frozen=True)
class FigureSubject:
    """The subject of figures, as their author and reviewer see it."""

    kind: Literal["node", "aggregate", "paper"]
    plan: str
    measurements: tuple[Measurement, ...]
    """Validation measurements of the node; for an aggregate, those of all replicates that it plots."""
    seeds: tuple[int, ...] = ()
    width: float = 5.5
    """Maximum width of a figure, in inches."""


def build_figure_subject(context: RunContext, arrays: PlotArrays) -> FigureSubject:
    """Return the node itself as the subject; for an aggregate, the replicated node."""
    nodes = context.state.nodes
    node = nodes[arrays.node]
    if node.kind != "aggregate":
        return FigureSubject("node", node.plan, node.measurements)
    parent = nodes[node.parent or ""]
    replicates = [nodes[name] for name in arrays.inputs]
    return FigureSubject(
        "aggregate",
        parent.plan,
        tuple(one for node in replicates for one in node.measurements),
        tuple(node.seed for node in replicates),
    )


@dataclass(frozen=True)
class FigureGallery:
    """Figures to review, their folder, and earlier versions of them with their reviews."""

    folder: Path
    figures: tuple[Figure, ...]
    previous: tuple[PlotRun, ...] = ()
    arrays: PlotArrays | None = None
    """The arrays that they may have been drawn from, for the data summary of a reviewer."""
    reviews_elsewhere: Mapping[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    """sha256 -> accepting review of the identical picture drawn by another node."""

    @property
    def shown_figures(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.name.endswith(".png"))

    @property
    def new_figures(self) -> tuple[Figure, ...]:
        """The figures that no review has accepted before."""
        accepted = self.accepted_reviews
        return tuple(figure for figure in self.shown_figures if figure.sha256 not in accepted)

    @property
    def earlier_reviews(self) -> list[tuple[Figure, FigureReview, bool]]:
        """All figures reviewed before, earliest first, each with whether a model reviewed it."""
        reviews = [({review.name: review for review in one.reviews or ()}, one) for one in self.previous]
        return [
            (figure, by_name[figure.name], one.looked)
            for by_name, one in reviews
            for figure in one.figures
            if figure.name in by_name
        ]

    @property
    def accepted_reviews(self) -> dict[str, FigureReview]:
        """sha256 -> latest accepting review of a figure with these bytes."""
        return {
            **self.reviews_elsewhere,
            **{figure.sha256: review for figure, review, looked in self.earlier_reviews if looked and review.readable},
        }
