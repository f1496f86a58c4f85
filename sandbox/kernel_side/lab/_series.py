"""Collect the data series on matplotlib axes, counted as a reader would count them.

Error bars belong to their line; reference lines and confidence bands are not series; the boxes of a boxplot count once,
and so do single bars without a label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS_GROUP = "parts of an element that is counted itself"
MAX_VALUES = 200_000
"""Maximum number of values used for the statistics of a series; longer series are sampled evenly."""
_MAX_TEXT_CHARS = 100


@dataclass(frozen=True)
class PlottedSeries:
    """An element drawn from data; `label` is empty if a legend would leave it out."""

    label: str
    group: object
    """Unlabelled series of one group count once."""
    kind: str
    values: NDArray[np.float64] = field(repr=False)
    """Heights, or other visible values; NaN for a point that is not drawn."""
    look: dict[str, str]
    interval: bool = False

    @property
    def has_finite_values(self) -> bool:
        return bool(np.isfinite(self.values).any())


def collect_series(axes: Any) -> list[PlottedSeries]:
    """Collect all elements on the axes that were drawn from data; parts of other elements have the group
    `PARTS_GROUP`.
    """
    taken: set[int] = set()
    series = [*_collect_containers(axes, taken), *_collect_lines(axes, taken), *_collect_collections(axes, taken)]
    for image in axes.images:  # a colour picture needs no scale, but an image of one number per pixel does
        values = to_numbers(image.get_array())
        series.append(
            PlottedSeries(get_legend_label(image), "image", "image" if values.ndim == 2 else "picture", values, {})
        )
    series += [
        PlottedSeries(
            get_legend_label(patch),
            "patches",
            "patch",
            _select_finite(patch.get_path().vertices),
            _describe_patch(patch),
        )
        for patch in axes.patches
        if id(patch) not in taken and is_in_data(patch, axes)
    ]
    return series


def count_series(series: list[PlottedSeries]) -> tuple[int, int]:
    """Return the number of series that a reader sees, and the number of those that are labelled.

    A single point without a label marks a position on another series.
    """
    series = [
        line for line in series if line.label or line.kind not in ("line", "scatter") or line.values.size != 1
    ] or series
    labels = {line.label for line in series if line.label}
    groups = {line.group for line in series if not line.label}
    if labels or groups - {PARTS_GROUP}:
        groups.discard(PARTS_GROUP)
    return len(labels) + len(groups), len(labels)


def build_fields(series: PlottedSeries) -> dict[str, Any]:
    """Build the fields of `record.schema.figures.DrawnFacts`."""
    values = series.values.ravel()
    sample = values[:: max(1, len(values) // MAX_VALUES)]
    finite = sample[np.isfinite(sample)]
    facts: dict[str, Any] = {
        "kind": series.kind,
        "label": series.label[:_MAX_TEXT_CHARS],
        "points": len(values),
        "finite": series.has_finite_values,
        "interval": series.interval,
        **series.look,
    }
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        facts |= {
            "low": low,
            "high": high,
            "mean": float(finite.mean()),
            "first": float(finite[0]),
            "last": float(finite[-1]),
            "constant": len(finite) > 2 and high - low <= 1e-9 * max(abs(low), abs(high)),
        }
    return facts


def has_spread(axes: Any) -> bool:
    """Whether the plot has a band, error bars, boxes, intervals or points of single runs."""
    kinds = " ".join(type(collection).__name__ for collection in axes.collections)
    return (
        "Poly" in kinds
        or "LineCollection" in kinds
        or any(map(_has_error, axes.containers))
        or any(str(line.get_label()) == "_nolegend_" for line in axes.lines)
    )


def get_legend_label(artist: Any) -> str:
    """Return the label that a legend would show."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def to_numbers(values: Any) -> NDArray[np.float64]:
    """Convert values to floats, masked ones to NaN."""
    return np.ma.asarray(values, dtype=np.float64).filled(np.nan)


# --- by kind of artist ----------------------------------------------------------------------------------------------


def _collect_containers(axes: Any, taken: set[int]) -> Iterable[PlottedSeries]:
    """Collect bar groups, error bars and stems; their parts are added to `taken`."""
    on_bars = {id(getattr(container, "errorbar", None)) for container in axes.containers}
    for container in axes.containers:
        parts = list(_flatten(container))
        taken.update(id(part) for part in parts)
        values = getattr(container, "datavalues", None)
        if values is not None:
            kind = "barh" if getattr(container, "orientation", "") == "horizontal" else "bar"
            yield PlottedSeries(
                get_legend_label(container),
                id(container) if len(parts) > 1 else "single bars",
                kind,
                to_numbers(values),
                _describe_patch(parts[0]) if parts else {},
                _has_error(container),
            )
        elif id(container) not in on_bars:
            line = next((part for part in parts if hasattr(part, "get_xydata")), None)
            heights, look = (
                (_select_finite(line.get_xydata()), _describe_line(line)) if line is not None else (np.zeros(1), {})
            )
            yield PlottedSeries(
                get_legend_label(container), id(container), "line", heights, look, _has_error(container)
            )


def _has_error(container: Any) -> bool:
    return bool(
        getattr(container, "errorbar", None) is not None
        or getattr(container, "has_yerr", False)
        or getattr(container, "has_xerr", False)
    )


def _flatten(parts: Any) -> Iterable[Any]:
    for part in parts:
        if isinstance(part, (tuple, list)):
            yield from _flatten(part)
        elif part is not None:
            yield part


def _collect_lines(axes: Any, taken: set[int]) -> Iterable[PlottedSeries]:
    bands = {_to_hex(area.get_facecolor()) for area in axes.collections if "Poly" in type(area).__name__}
    for line in axes.lines:
        if id(line) in taken or not is_in_data(line, axes):
            continue
        look, heights = _describe_line(line), _select_finite(line.get_xydata())
        # parts of a boxplot, and elements that the author excludes from the legend
        if str(line.get_label()) == "_nolegend_":
            yield PlottedSeries("", PARTS_GROUP, "box", heights, look)
        else:
            yield PlottedSeries(
                get_legend_label(line), tuple(look.values()), "line", heights, look, look["colour"] in bands
            )


def _collect_collections(axes: Any, taken: set[int]) -> Iterable[PlottedSeries]:
    """Collect scatters, meshes and contours; a band around a line counts only if it has its own label."""
    lone = not axes.lines and not axes.containers
    for artist in axes.collections:
        if id(artist) in taken:
            continue
        kind, label, values = type(artist).__name__, get_legend_label(artist), artist.get_array()
        if "Path" in kind:
            points = to_numbers(artist.get_offsets())
            heights = np.where(np.isfinite(points).all(axis=-1), points[:, -1], np.nan) if points.ndim == 2 else points
            paths = artist.get_paths()
            corners = to_numbers(paths[0].vertices) if paths else None  # equal for markers of the same shape
            marker = (
                ""
                if corners is None
                else f"{len(corners)}:{float(np.abs(corners).sum()):.2f}:{float(corners[:, 1].sum()):.2f}"
            )
            yield PlottedSeries(
                label,
                id(artist),
                "scatter",
                heights,
                {"colour": "" if values is not None else _to_hex(artist.get_facecolor()), "marker": marker},
            )
        elif label or lone or values is not None:
            drawn = (
                to_numbers(values)
                if values is not None
                else _select_finite(np.concatenate([np.zeros((0, 2)), *(path.vertices for path in artist.get_paths())]))
            )
            look = {"hatch": str(artist.get_hatch() or ""), "colour": _to_hex(artist.get_facecolor())}
            form = "image" if "Mesh" in kind else "contour" if "Contour" in kind else "area"
            group = (
                PARTS_GROUP
                if kind == "LineCollection"
                else "areas"
                if values is not None
                else ("areas", look["colour"])
            )
            yield PlottedSeries(label, group, form, drawn, {} if values is not None else look)


# --- looks and values -----------------------------------------------------------------------------------------------


def _describe_line(line: Any) -> dict[str, str]:
    marker = str(line.get_marker())
    return {
        "colour": _to_hex(line.get_color()),
        "line": str(line.get_linestyle()),
        "marker": "" if marker in ("None", " ", "") else marker,
    }


def _describe_patch(patch: Any) -> dict[str, str]:
    look = getattr(patch, "get_facecolor", None)
    return {"colour": _to_hex(look()) if look else "", "hatch": str(getattr(patch, "get_hatch", str)() or "")}


def _to_hex(colour: Any) -> str:
    """Return the colour as #rrggbb without transparency; empty if there is no single colour."""
    from matplotlib.colors import to_hex, to_rgba_array  # a script may not use matplotlib

    try:
        colours = np.unique(to_rgba_array(colour), axis=0)
    except ValueError:
        return ""
    return str(to_hex(colours[0])) if len(colours) == 1 else ""


def _select_finite(points: Any) -> NDArray[np.float64]:
    """Return the second coordinates of points, NaN if the first is not finite; other values unchanged."""
    array = to_numbers(points)
    if array.ndim == 2 and array.shape[1] == 2:
        return np.where(np.isfinite(array).all(axis=1), array[:, 1], np.nan)
    return array


def is_in_data(artist: Any, axes: Any) -> bool:
    """Return False for a reference line in axes coordinates, over the whole width or height."""
    return all(artist.get_transform().contains_branch_seperately(axes.transData))
