"""What a live matplotlib figure says of itself when it is saved, written beside the image as <file>.facts.json.

The form is `record.nouns.FigureFacts`. The host reads it as untrusted. Numbers of series are counted the way a reader
counts them: error bars belong to their line, a reference line or a confidence band is no series, boxes of one boxplot
are one thing, and bars drawn one by one without a label are one group.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TEXT = 300
"""Characters of a label or title that are kept."""
_PARTS = "parts of something that is counted itself"


@dataclass(frozen=True)
class _Series:
    """Something drawn from data; `label` is empty where a legend would leave it out."""

    label: str
    group: object
    """Unlabelled series of one group count once."""
    finite: bool


def watch(figure_class: Any) -> None:
    """Make `Figure.savefig` leave the facts beside each file that it writes."""
    save = figure_class.savefig

    @functools.wraps(save)
    def savefig(self: Any, fname: Any, *args: Any, **options: Any) -> Any:
        done = save(self, fname, *args, **options)
        if isinstance(fname, (str, os.PathLike)):
            path = _written(os.fspath(fname), options.get("format"))
            with open(f"{path}.facts.json", "w", encoding="utf-8") as file:
                json.dump(facts(self), file)
        return done

    figure_class.savefig = savefig


def facts(figure: Any) -> dict[str, Any]:
    """The fields of `FigureFacts`; colour bars are left out."""
    width, height = figure.get_size_inches()
    plots = [axes for axes in figure.axes if not _is_colourbar(axes)]
    return {"axes": [_axes_facts(axes, plots) for axes in plots],
            "width_inches": float(width), "height_inches": float(height)}


def _written(path: str, form: str | None) -> str:
    """The file that matplotlib wrote for this name: it adds an ending where there is none."""
    if form or os.path.splitext(path)[1]:
        return path
    import matplotlib

    return f"{path.rstrip('.')}.{matplotlib.rcParams['savefig.format']}"


def _is_colourbar(axes: Any) -> bool:
    return axes.get_label() == "<colorbar>" or getattr(axes, "_colorbar", None) is not None


def _axes_facts(axes: Any, plots: list[Any]) -> dict[str, Any]:
    try:
        series = _series(axes)
    except Exception:  # artists are of any library's making; a figure must not fail because we cannot count them
        series = [_Series("", "unknown", True)]
    labels = {one.label for one in series if one.label}
    groups = {one.group for one in series if not one.label}
    if labels or groups - {_PARTS}:
        groups.discard(_PARTS)
    return {
        "title": _cut(axes.get_title() or axes.get_title(loc="left") or axes.get_title(loc="right")),
        "xlabel": _cut(_label(axes, "x")), "ylabel": _cut(_label(axes, "y")),
        "series": len(labels) + len(groups), "labelled_series": len(labels),
        "legend": _has_legend(axes, plots, labels),
        "empty": not any(one.finite for one in series),
        "visible": bool(axes.get_visible() and axes.axison),
    }


def _cut(text: str) -> str:
    return str(text)[:_TEXT]


def _label(axes: Any, which: str) -> str:
    """The axis' own label, else that of a panel it shares the axis with, else that of the whole figure."""
    own = getattr(axes, f"get_{which}label")()
    if own.strip():
        return own
    shared = getattr(axes, f"get_shared_{which}_axes")().get_siblings(axes)
    for sibling in shared:
        text = getattr(sibling, f"get_{which}label")()
        if text.strip():
            return text
    for figure in (axes.figure, axes.get_figure(root=True)):
        text = getattr(figure, f"get_sup{which}label")()
        if text.strip():
            return text
    return ""


def _has_legend(axes: Any, plots: list[Any], labels: set[str]) -> bool:
    """True where a legend explains these series: the axes' own, the figure's, or one of another panel."""
    if axes.get_legend() is not None or axes.figure.legends or axes.get_figure(root=True).legends:
        return True
    others = (other.get_legend() for other in plots)
    explained = [{text.get_text() for text in legend.get_texts()} for legend in others if legend is not None]
    return bool(labels) and any(labels <= texts for texts in explained)


# --- what was drawn -------------------------------------------------------------------------------------------------


def _series(axes: Any) -> list[_Series]:
    taken: set[int] = set()
    found = [*_containers(axes, taken), *_lines(axes, taken), *_collections(axes, taken)]
    found += [_Series(_shown(image), "image", _finite(image.get_array())) for image in axes.images]
    loose = [patch for patch in axes.patches if id(patch) not in taken and _in_data(patch, axes)]
    found += [_Series(_shown(patch), "patches", _finite(patch.get_path().vertices)) for patch in loose]
    return found


def _containers(axes: Any, taken: set[int]) -> Iterable[_Series]:
    """Bar groups, error bars and stems; their parts are marked as taken."""
    on_bars = {id(getattr(container, "errorbar", None)) for container in axes.containers}
    for container in axes.containers:
        parts = list(_flat(container))
        taken.update(id(part) for part in parts)
        values = getattr(container, "datavalues", None)
        if values is not None:
            yield _Series(_shown(container), id(container) if len(parts) > 1 else "single bars", _finite(values))
        elif id(container) not in on_bars:
            drawn = [part for part in parts if hasattr(part, "get_xydata")]
            finite = any(_finite(line.get_xydata()) for line in drawn) or not drawn
            yield _Series(_shown(container), id(container), finite)


def _flat(parts: Any) -> Iterable[Any]:
    for part in parts:
        if isinstance(part, (tuple, list)):
            yield from _flat(part)
        elif part is not None:
            yield part


def _lines(axes: Any, taken: set[int]) -> Iterable[_Series]:
    for line in axes.lines:
        if id(line) in taken or not _in_data(line, axes):
            continue
        if str(line.get_label()) == "_nolegend_":  # parts of a boxplot, and what its author keeps out of a legend
            yield _Series("", _PARTS, _finite(line.get_xydata()))
        else:
            style = (str(line.get_color()), line.get_linestyle(), str(line.get_marker()))
            yield _Series(_shown(line), style, _finite(line.get_xydata()))


def _collections(axes: Any, taken: set[int]) -> Iterable[_Series]:
    """Scatters, meshes, contours; a band around a line counts only where it has a label of its own."""
    lone = not axes.lines and not axes.containers
    for artist in axes.collections:
        if id(artist) in taken:
            continue
        kind = type(artist).__name__
        label = _shown(artist)
        if "Path" in kind:
            yield _Series(label, id(artist), _finite(artist.get_offsets()))
        elif label or lone or artist.get_array() is not None:
            yield _Series(label, "areas", _finite_collection(artist))


def _finite_collection(artist: Any) -> bool:
    values = artist.get_array()
    return _finite(values) if values is not None else any(_finite(path.vertices) for path in artist.get_paths())


def _shown(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _in_data(artist: Any, axes: Any) -> bool:
    """False for a reference line over the whole width or height, which lives in axes coordinates."""
    return all(artist.get_transform().contains_branch_seperately(axes.transData))


def _finite(values: Any) -> bool:
    """True where at least one value (of points: one whole point) is finite."""
    array: NDArray[np.float64] = np.ma.asarray(values, dtype=np.float64).filled(np.nan)
    if array.size == 0:
        return False
    points = np.isfinite(array)
    return bool(points.all(axis=-1).any() if array.ndim == 2 and array.shape[1] == 2 else points.any())
