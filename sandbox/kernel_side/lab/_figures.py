"""Extract facts about a matplotlib figure when it is saved, and write them next to the image as <file>.facts.json.

The format is `record.schema.paper.FigureFacts`. The host treats it as untrusted, since code can write anything there.
This never makes a plot fail: errors are stored in the field `error`, and labels that remain after `MAX_FIGURE_SECONDS`
are left out.

Series: error bars belong to their line; reference lines and confidence bands are not series; the boxes of a boxplot
count once, and so do single bars without a label.

Labels: boxes are matplotlib's `Bbox`, in pixels of the figure's own dpi; rotated labels are not compared with each
other. Limited to `MAX_TEXTS` labels and the time `until`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS_GROUP = "parts of an element that is counted itself"
MAX_VALUES = 200_000
"""Maximum number of values used for the statistics of a series; longer series are sampled evenly."""


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


def collect_series(axes: Any) -> list[PlottedSeries]:
    """Collect all elements on the axes that were drawn from data; parts of other elements have the group
    `PARTS_GROUP`.
    """
    taken: set[int] = set()
    series = [*_collect_containers(axes, taken), *_collect_lines(axes, taken), *_collect_collections(axes, taken)]
    for image in axes.images:  # a colour picture needs no scale, but an image of one number per pixel does
        values = to_numbers(image.get_array())
        kind = "image" if values.ndim == 2 else "picture"
        series.append(PlottedSeries(get_legend_label(image), "image", kind, values, {}))
    for patch in axes.patches:
        if id(patch) not in taken and is_in_data(patch, axes):
            heights = _select_finite(patch.get_path().vertices)
            series.append(PlottedSeries(get_legend_label(patch), "patches", "patch", heights, _describe_patch(patch)))
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
    return len(labels) + (len(groups - {PARTS_GROUP}) or (bool(groups) and not labels)), len(labels)


def build_fields(series: PlottedSeries) -> dict[str, Any]:
    """Build the fields of `record.schema.paper.DrawnFacts`."""
    values = series.values.ravel()
    sample = values[:: max(1, len(values) // MAX_VALUES)]
    finite = sample[np.isfinite(sample)]
    facts: dict[str, Any] = {"kind": series.kind, "label": _truncate(series.label), "points": len(values)}
    facts |= {"finite": bool(np.isfinite(values).any()), "interval": series.interval} | series.look
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        facts |= {"low": low, "high": high, "mean": float(finite.mean())}
        facts |= {"first": float(finite[0]), "last": float(finite[-1])}
        facts["constant"] = len(finite) > 2 and high - low <= 1e-9 * max(abs(low), abs(high))
    return facts


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
        label, values = get_legend_label(container), getattr(container, "datavalues", None)
        has_bars = getattr(container, "has_yerr", False) or getattr(container, "has_xerr", False)
        has_error = bool(has_bars or getattr(container, "errorbar", None) is not None)
        if values is not None:
            kind = "barh" if getattr(container, "orientation", "") == "horizontal" else "bar"
            group = id(container) if len(parts) > 1 else "single bars"
            look = _describe_patch(parts[0]) if parts else {}
            yield PlottedSeries(label, group, kind, to_numbers(values), look, has_error)
        elif id(container) not in on_bars:
            line = next((part for part in parts if hasattr(part, "get_xydata")), None)
            heights = np.zeros(1) if line is None else _select_finite(line.get_xydata())
            look = {} if line is None else _describe_line(line)
            yield PlottedSeries(label, id(container), "line", heights, look, has_error)


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
            continue
        label, group = get_legend_label(line), tuple(look.values())
        yield PlottedSeries(label, group, "line", heights, look, look["colour"] in bands)


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
            look = {"colour": "" if values is not None else _to_hex(artist.get_facecolor()), "marker": ""}
            if paths := artist.get_paths():
                corners = to_numbers(paths[0].vertices)  # equal for markers of the same shape
                look["marker"] = f"{len(corners)}:{np.abs(corners).sum():.2f}:{corners[:, 1].sum():.2f}"
            yield PlottedSeries(label, id(artist), "scatter", heights, look)
        elif values is not None:
            form = "image" if "Mesh" in kind else "contour" if "Contour" in kind else "area"
            group = PARTS_GROUP if kind == "LineCollection" else "areas"
            yield PlottedSeries(label, group, form, to_numbers(values), {})
        elif label or lone:
            corners = np.concatenate([np.zeros((0, 2)), *(path.vertices for path in artist.get_paths())])
            look = {"hatch": str(artist.get_hatch() or ""), "colour": _to_hex(artist.get_facecolor())}
            group = PARTS_GROUP if kind == "LineCollection" else ("areas", look["colour"])
            yield PlottedSeries(label, group, "area", _select_finite(corners), look)


# --- looks and values -----------------------------------------------------------------------------------------------


def _describe_line(line: Any) -> dict[str, str]:
    marker = str(line.get_marker())
    look = {"colour": _to_hex(line.get_color()), "line": str(line.get_linestyle())}
    return look | {"marker": "" if marker in ("None", " ") else marker}


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


# --- labels that are clipped, overlap each other or lie on another panel ----------------------------------------------


MAX_TEXTS = 400
_MAX_FINDINGS = 20
"""Maximum number of findings of each kind."""
_MIN_OVERLAP_SHARE = 0.02
"""Minimum share of the smaller box that must be covered for two labels to count as overlapping."""


@dataclass(frozen=True)
class FigureText:
    """A label or legend. The items of a legend (kind `in legend`) are compared as a whole, but their size counts."""

    text: str
    kind: str
    box: Any
    points: float
    is_turned: bool = False
    axes: Any = None


def collect_texts(figure: Any, until: float) -> list[FigureText]:
    """Collect the visible texts of a figure that has been drawn."""
    texts = chain(
        *(_iterate_legend(legend, None) for legend in figure.legends),
        *(_iterate_text(artist, "note") for artist in figure.texts),  # includes titles and labels for all panels
        *(_iterate_axes_texts(axes) for axes in figure.axes if axes.get_visible()),
    )
    return list(takewhile(lambda _: time.monotonic() <= until, islice(texts, MAX_TEXTS)))


def _iterate_axes_texts(axes: Any) -> Iterator[FigureText]:
    for name in ("title", "_left_title", "_right_title"):
        yield from _iterate_text(getattr(axes, name, None), "title", axes)
    if axes.axison:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_visible():
                yield from _iterate_text(axis.label, "label", axes)
                yield from _iterate_text(axis.get_offset_text(), "offset", axes)
                for text in iterate_tick_labels(axis):
                    yield from _iterate_text(text, "tick", axes)
    for artist in axes.texts:
        if not artist.get_clip_on() or artist.get_clip_path() is None:
            yield from _iterate_text(artist, "note", axes)
    if axes.get_legend() is not None and axes.get_legend().get_visible():
        yield from _iterate_legend(axes.get_legend(), axes)


def iterate_tick_labels(axis: Any) -> Iterator[Any]:
    """Yield the tick labels that are drawn: visible, not empty, within the limits."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low - slack <= tick.get_loc() <= high + slack:
            for label in (tick.label1, tick.label2):
                if label.get_visible() and label.get_text().strip():
                    yield label


def _iterate_text(artist: Any, what: str, axes: Any = None) -> Iterator[FigureText]:
    if artist is None or not artist.get_visible() or not artist.get_text().strip():
        return
    box = artist.get_window_extent()
    if box.width > 0 and box.height > 0:
        text, points = _truncate(artist.get_text().strip()), float(artist.get_fontsize())
        yield FigureText(text, what, box, points, artist.get_rotation() % 90 != 0, axes)


def _iterate_legend(legend: Any, axes: Any) -> Iterator[FigureText]:
    yield FigureText("the legend", "legend", legend.get_window_extent(), 0.0, axes=axes)
    for text in (*legend.get_texts(), legend.get_title()):
        yield from _iterate_text(text, "in legend", axes)


# --- problems with positions ----------------------------------------------------------------------------------------


def find_clipped(texts: list[FigureText], canvas: Any) -> list[str]:
    """Find labels with at least a tenth of their height or width outside the canvas."""

    def is_clipped(item: FigureText) -> bool:
        room = canvas.padded(4.0 if item.kind == "legend" else 0.1 * min(item.box.size))
        is_inside = room.count_contains(item.box.get_points()) == 2
        return not is_inside and (item.kind != "note" or canvas.overlaps(item.box))

    return [item.text for item in texts if is_clipped(item)][:_MAX_FINDINGS]


def find_overlaps(texts: list[FigureText], panels: list[Any]) -> list[dict[str, Any]]:
    """Find pairs of overlapping labels, and labels that lie on another panel; the worst come first."""
    hits = [*_find_overlapping_pairs(texts), *_find_texts_on_panels(texts, panels)]
    return sorted(hits, key=lambda hit: -float(hit["share"]))[:_MAX_FINDINGS]


def _find_overlapping_pairs(items: list[FigureText]) -> Iterator[dict[str, Any]]:
    boxes = np.array([_tighten(item.box).extents for item in items]).reshape(-1, 4)
    low, high = np.maximum(boxes[:, None, :2], boxes[:, :2]), np.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=-1)
    area = np.diagonal(shared)
    # Share of the smaller of two boxes that lies in the other, shape (boxes, boxes).
    shares = shared / np.maximum(np.minimum(area[:, None], area), 1e-9)
    for i, j in np.argwhere(np.triu(shares, 1) > _MIN_OVERLAP_SHARE).tolist():
        a, b = items[i], items[j]
        same_place = a.text == b.text and shares[i, j] > 0.95
        if not ((a.is_turned and b.is_turned) or same_place):
            yield {"a": a.text, "b": b.text, "share": round(float(shares[i, j]), 3)}


def _tighten(box: Any) -> Any:
    """Remove the space above and below the letters."""
    spare = -0.15 * min(box.size)
    return box.padded(0.0, spare) if box.width > box.height else box.padded(spare, 0.0)


def _find_texts_on_panels(items: list[FigureText], panels: list[Any]) -> Iterator[dict[str, Any]]:
    boxes = {axes: axes.get_window_extent() for axes in panels if axes.get_visible() and axes.axison}
    for item in items:
        if item.axes not in boxes or item.kind not in ("label", "title", "tick"):
            continue
        own, text = boxes[item.axes].padded(-1.0), _tighten(item.box)
        for box in boxes.values():
            # None for its own panel, a twin or an inset
            common = None if own.overlaps(box) else text.intersection(text, box)
            share = 0.0 if common is None else float(common.size.prod() / text.size.prod())
            if share > 0.3:
                yield {"a": item.text, "b": "another panel", "share": round(share, 3)}


# --- the facts of a figure --------------------------------------------------------------------------------------------


MAX_FIGURE_SECONDS = 2.0
"""Wall clock limit for one figure in seconds."""
_MAX_TEXT_CHARS = 300
"""Maximum number of characters kept of a label or title."""
_MAX_PANELS, _MAX_SERIES, _MAX_WORDS = 36, 40, 40
"""Maximum numbers of recorded items: axes per figure; series per axes; and tick labels, legend entries or notes per
axes.
"""


def watch_figures(figure_class: Any) -> None:
    """Make `Figure.savefig` write the facts next to each saved file."""
    save = figure_class.savefig

    @functools.wraps(save)
    def savefig(self: Any, fname: Any, *args: Any, **options: Any) -> Any:
        done = save(self, fname, *args, **options)
        if isinstance(fname, (str, os.PathLike)):
            _write_facts(self, os.fspath(fname), options)
        return done

    figure_class.savefig = savefig


def _write_facts(figure: Any, path: Any, options: dict[str, Any]) -> None:
    import matplotlib  # already imported, since a figure was saved

    settings = matplotlib.rcParams
    with contextlib.suppress(Exception):  # saving must not fail; without facts the host judges only the image
        if not (options.get("format") or os.path.splitext(path)[1]):  # matplotlib adds an extension if there is none
            path = f"{path.rstrip('.')}.{settings['savefig.format']}"
        try:
            fields = build_facts(figure, tight=options.get("bbox_inches", settings["savefig.bbox"]) == "tight")
        except Exception as error:
            fields = {"error": f"{type(error).__name__}: {error}"[:_MAX_TEXT_CHARS]}
        with open(f"{path}.facts.json", "w", encoding="utf-8") as file:
            json.dump(fields, file)


def build_facts(figure: Any, *, tight: bool = False) -> dict[str, Any]:
    """Build the fields of `FigureFacts`; colour bars do not count as axes. `tight`: cropped to its content when
    saved."""
    until = time.monotonic() + MAX_FIGURE_SECONDS
    width, height = (float(side) for side in figure.get_size_inches())
    figure.draw_without_rendering()  # saving may have moved labels, at another dpi or by cropping
    plots = [axes for axes in figure.axes if not _is_colourbar(axes)]
    bars = [axes for axes in figure.axes if _is_colourbar(axes)]
    outside = [text.get_text() for holder in (figure, *figure.legends) for text in holder.texts]
    fields: dict[str, Any] = {
        "width_inches": width,
        "height_inches": height,
        "axes": [_build_axes_facts(axes, plots) for axes in plots[:_MAX_PANELS]],
        "words": [_truncate(text) for text in outside if text.strip()][:_MAX_WORDS],
        "scales": [_truncate(axes.get_xlabel() or axes.get_ylabel()) for axes in bars],
    }
    try:
        texts = collect_texts(figure, until)
        compared = [item for item in texts if item.kind != "in legend"]
        points, smallest = min(((item.points, item.text) for item in texts if item.points > 0), default=(None, ""))
        fields |= {"smallest_font": points, "smallest_text": smallest, "overlaps": find_overlaps(compared, plots)}
        fields["clipped"] = [] if tight else find_clipped(compared, figure.bbox)
        if tight:  # the saved file has the size of the drawing
            box = figure.get_tightbbox()
            fields |= {"width_inches": float(box.width), "height_inches": float(box.height)}
    except Exception as error:
        fields["error"] = f"{type(error).__name__}: {error}"[:_MAX_TEXT_CHARS]
    return fields


def _is_colourbar(axes: Any) -> bool:
    return axes.get_label() == "<colorbar>" or getattr(axes, "_colorbar", None) is not None


# --- one axes -------------------------------------------------------------------------------------------------------


def _build_axes_facts(axes: Any, plots: list[Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "title": _truncate(axes.get_title() or axes.get_title(loc="left") or axes.get_title(loc="right")),
        "xlabel": _truncate(_find_label(axes, "x")),
        "ylabel": _truncate(_find_label(axes, "y")),
        # three-dimensional axes switch `axison` off while drawing, and keep the requested value separately
        "visible": bool(axes.get_visible() and getattr(axes, "_axis3don", axes.axison)),
        "series": 1,
        "legend": _has_legend(axes, plots, set()),
    }
    with contextlib.suppress(Exception):  # artists may come from any library, so record as much as possible
        series = collect_series(axes)
        fields["series"], fields["labelled_series"] = count_series(series)
        fields["legend"] = _has_legend(axes, plots, {line.label for line in series if line.label})
        fields["empty"] = not any(np.isfinite(line.values).any() for line in series)
        fields |= _build_more_facts(axes) | {"drawn": [build_fields(line) for line in series[:_MAX_SERIES]]}
    return fields


def _build_more_facts(axes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"zlabel": _truncate(axes.get_zlabel())} if hasattr(axes, "get_zlabel") else {}
    words: list[str] = []
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        texts = [text.get_text() for text in iterate_tick_labels(axis)] if axis.get_visible() else []
        fields |= {
            f"{side}ticks": len(texts),
            f"{side}scale": str(axis.get_scale()),
            f"{side}words": bool(texts) and not any(_is_number(text) for text in texts),
        }
        words += [text for text in texts if not _is_number(text)]
    if np.isfinite(ends := axes.xaxis.get_view_interval()).all():
        fields["xlimits"] = list(map(float, ends))
    if axes.name == "polar":  # angles and radii need no names
        fields |= {"xticks": 0, "yticks": 0}
    legend = axes.get_legend()
    notes = [text.get_text() for text in axes.texts if text.get_visible() and text.get_text().strip()]
    return fields | {
        "tick_words": [_truncate(text) for text in words[:_MAX_WORDS]],
        "notes": [_truncate(text) for text in notes[:_MAX_WORDS]],
        "legend_entries": [_truncate(text.get_text()) for text in legend.get_texts()[:_MAX_WORDS]] if legend else [],
    }


def _is_number(text: str) -> bool:
    """Whether the text starts with a digit, with any unit; preceding TeX commands and brackets are ignored."""
    return re.match(r"[\s$({\u2212+.-]*\d", re.sub(r"\\[a-zA-Z]+", "", text)) is not None


def _truncate(text: str) -> str:
    return str(text)[:_MAX_TEXT_CHARS]


def _find_label(axes: Any, which: str) -> str:
    """Return the label of the axis, otherwise that of a panel sharing the axis, otherwise that of the whole figure."""
    shared = getattr(axes, f"get_shared_{which}_axes")().get_siblings(axes)
    texts = [
        *(getattr(panel, f"get_{which}label")() for panel in (axes, *shared)),
        *(getattr(figure, f"get_sup{which}label")() for figure in (axes.figure, axes.get_figure(root=True))),
    ]
    return next((text for text in texts if text.strip()), "")


def _has_legend(axes: Any, plots: list[Any], labels: set[str]) -> bool:
    """Whether a legend explains these series: a legend of the axes, of the figure, or of another panel."""
    if axes.get_legend() is not None or axes.figure.legends or axes.get_figure(root=True).legends:
        return True
    others = (other.get_legend() for other in plots)
    explained = [{text.get_text() for text in legend.get_texts()} for legend in others if legend is not None]
    return bool(labels) and any(labels <= texts for texts in explained)
