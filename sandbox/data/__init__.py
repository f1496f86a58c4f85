"""Data of the user's own: how they are named, read and cut into splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # settings name kinds of tasks, and commands that only look at a run do without numpy
    from numpy.typing import NDArray

TaskKind = Literal["classification", "regression", "none"]


@dataclass(frozen=True)
class Examples:
    """All examples of a dataset.

    x (n, features) float64 is a table: NaN is missing, and it is standardised once the splits are known. x (n, height,
    width, channels) uint8 are images, served as float32 in [0, 1] unless they are very many. x (n,) of str are texts.
    Any other x is served as it is. It need not be in memory: `x[rows]` reads them. y (n,) is int64 from 0, or float32
    for regression. `folder` stands instead of x and y where the code gets a path.
    """

    x: Any
    y: NDArray[Any]
    names: tuple[str, ...] = ()
    """Of the columns of x."""
    numeric: NDArray[Any] | None = None
    """(features,) bool: the columns of a table that are measured, not one-hot. None: all."""
    class_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Feature columns as the source has them, before any encoding."""
    target: str = ""
    split_names: NDArray[Any] | None = None
    """(n,) "train", "validation" or "test": the splits that the data bring."""
    groups: NDArray[Any] | None = None
    """(n,) int64: rows of one group stay in one split."""
    times: NDArray[Any] | None = None
    """(n,) numbers: later rows go to later splits."""
    target_times: NDArray[Any] | None = None
    """(n,) the times of what is to be predicted, where that lies ahead of `times`."""
    meta: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """Column -> (n,) texts that metrics may go by, and that are no features."""
    meta_shown: tuple[str, ...] = ()
    """Those of them that code sees in train and dev."""
    dev_from: Literal["train", "validation"] = "train"
    missing: Mapping[str, int] = field(default_factory=dict[str, int])
    """Column -> how many rows miss it."""
    warnings: tuple[str, ...] = ()
    folder: Path | None = None
