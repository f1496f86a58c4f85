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
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.figures import Figure, FigureReview
from labwright.record.nouns.nodes import Plotting
from labwright.sandbox.untrusted import BadFile, load_array, names_in
from labwright.stages.bench import Bench

MOST_VALUES = 1_000_000
"""Values of an array that are read; of more, every k-th row."""
NARROW = 4
"""Columns of a table whose ranges are told one by one."""


def _of_file(folder: Path, file: str, name: str) -> ArrayBrief | None:
    try:
        array = load_array(folder, file)
    except BadFile:
        return None
    shape, dtype = tuple(array.shape), str(array.dtype)
    if array.dtype.kind not in "biuf":
        return ArrayBrief(path=name, shape=shape, dtype=dtype)
    rows = array[:: max(1, array.size // MOST_VALUES)] if array.ndim else array
    values = np.asarray(rows, dtype=np.float64)
    narrow = values.ndim == 2 and 2 <= values.shape[1] <= NARROW
    ranges = [_range(column) for column in (values.T if narrow else [values])]
    return ArrayBrief(
        path=name,
        shape=shape,
        dtype=dtype,
        missing=int(np.sum(~np.isfinite(values))),
        ranges=tuple(one for one in ranges if one is not None) if None not in ranges else (),
    )


def _range(values: NDArray[np.float64]) -> Range | None:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        mean = finite.mean() if finite.size else np.nan
    if not np.isfinite(mean):  # none is finite, or their sum is not
        return None
    return Range(low=float(finite.min()), high=float(finite.max()), mean=float(mean))


@dataclass(frozen=True)
class Canvas:
    """What a node's plots may draw from: its own arrays, and those of other nodes by name."""

    node: str
    arrays: Path | None = None
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])

    async def briefs(self) -> tuple[ArrayBrief, ...]:
        """Every array, as a plotting script finds it, with its range. What is no array is left out."""
        folders = {"arrays": self.arrays} if self.arrays is not None else {}
        folders |= {f"inputs/{name}": folder for name, folder in self.inputs.items()}
        briefs = [
            await to_thread(_of_file, folder, name, f"{prefix}/{name}")
            for prefix, folder in folders.items()
            for name in names_in(folder, "", ".npy")
        ]
        return tuple(brief for brief in briefs if brief is not None)


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
    return Subject(
        "aggregate",
        parent.plan,
        tuple(one for node in drawn for one in node.measurements),
        tuple(node.seed for node in drawn),
    )


@dataclass(frozen=True)
class Gallery:
    """Figures to look at, the folder they lie in, and what was drawn and reviewed in their place before."""

    folder: Path
    figures: tuple[Figure, ...]
    before: tuple[Plotting, ...] = ()
    canvas: Canvas | None = None
    """What they may have been drawn from, for a reviewer's data summary."""
    elsewhere: Mapping[str, FigureReview] = field(default_factory=dict[str, FigureReview])
    """sha256 -> what was said of the very same picture where another node drew it, and it was found readable."""

    @property
    def shown(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.name.endswith(".png"))

    @property
    def new(self) -> tuple[Figure, ...]:
        """Those that nobody found readable before."""
        accepted = self.accepted
        return tuple(figure for figure in self.shown if figure.sha256 not in accepted)

    @property
    def earlier(self) -> list[tuple[Figure, FigureReview, bool]]:
        """Every figure that was reviewed before, the earliest first, and whether a model looked at it."""
        reviews = [({review.name: review for review in one.reviews or ()}, one) for one in self.before]
        return [
            (figure, by_name[figure.name], one.looked)
            for by_name, one in reviews
            for figure in one.figures
            if figure.name in by_name
        ]

    @property
    def accepted(self) -> dict[str, FigureReview]:
        """sha256 -> the review of a figure with these bytes that was found readable; the latest one."""
        return {
            **self.elsewhere,
            **{figure.sha256: review for figure, review, looked in self.earlier if looked and review.readable},
        }
