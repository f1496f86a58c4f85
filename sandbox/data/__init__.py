"""User datasets: how they are specified, read and split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # settings and commands that only inspect a run must not import numpy
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Examples:
    """All examples of a dataset.

    x (n, features) float64 is a table: NaN means missing; it is standardised after splitting. x (n, height, width,
    channels) uint8 contains images, served as float32 in [0, 1] unless the array would be too large. x (n,) of str
    contains texts. Any other x is served unchanged. x may be on disk: `x[rows]` reads those rows. y (n,) is int64
    starting at 0, or float32 for regression. `folder` replaces x and y if experiment code gets a path.
    """

    x: Any
    y: NDArray[Any]
    names: tuple[str, ...] = ()
    """Names of the columns of x."""
    numeric: NDArray[Any] | None = None
    """(features,) bool: whether each column of a table is numeric rather than one-hot. None: all."""
    class_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Feature columns of the source, before encoding."""
    target: str = ""
    split_names: NDArray[Any] | None = None
    """(n,) "train", "validation" or "test", if the source defines splits."""
    groups: NDArray[Any] | None = None
    """(n,) int64: rows of one group stay in one split."""
    times: NDArray[Any] | None = None
    """(n,) numbers; later rows go to later splits."""
    target_times: NDArray[Any] | None = None
    """(n,) times of the predicted values, if later than `times`."""
    meta: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """Column -> (n,) strings by which metrics may group; not features."""
    meta_shown: tuple[str, ...] = ()
    """Columns of `meta` that experiment code sees in train and dev."""
    dev_from: Literal["train", "validation"] = "train"
    missing: Mapping[str, int] = field(default_factory=dict[str, int])
    """Column -> number of rows with a missing value."""
    warnings: tuple[str, ...] = ()
    folder: Path | None = None
