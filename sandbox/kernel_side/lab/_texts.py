"""Find labels of a matplotlib figure that are clipped, overlap each other or lie on another panel.

Boxes are matplotlib's `Bbox`, in pixels of the figure's own dpi; rotated labels are not compared with each other.
Limited to `MAX_TEXTS` labels and the time `until`; the result says whether labels were left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lab._series import is_in_data

MAX_TEXTS = 400
_MAX_TEXT_CHARS = 80
_MAX_FINDINGS = 20
"""Maximum number of findings of each kind."""
_MIN_OVERLAP_SHARE = 0.02
"""Minimum share of the smaller box that must be covered for two labels to count as overlapping."""


@dataclass(frozen=True)
class FigureText:
    """A label or legend; the items of `legend` are compared as a whole."""

    text: str
    kind: str
    box: Any
    points: float
    is_turned: bool = False
    axes: Any = None


@dataclass(frozen=True)
class FigureTexts:
    """All visible labels, and whether some were left out."""

    items: list[FigureText]
    inside: list[FigureText]
    """Labels inside legends, for their size."""
    is_truncated: bool


def collect_texts(figure: Any, until: float) -> FigureTexts:
    """Collect every visible text of a figure that has been drawn."""
    items: list[FigureText] = []
    inside: list[FigureText] = []
    for item in chain(
        *(_iterate_legend(legend, None) for legend in figure.legends),
        *(_iterate_text(artist, "note") for artist in figure.texts),  # includes titles and labels for all panels
        *(_iterate_axes_texts(axes) for axes in figure.axes if axes.get_visible()),
    ):
        if len(items) + len(inside) >= MAX_TEXTS or time.monotonic() > until:
            return FigureTexts(items, inside, True)
        (inside if item.kind == "in legend" else items).append(item)
    return FigureTexts(items, inside, False)


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
        yield FigureText(
            artist.get_text().strip()[:_MAX_TEXT_CHARS],
            what,
            box,
            float(artist.get_fontsize()),
            artist.get_rotation() % 90 != 0,
            axes,
        )


def _iterate_legend(legend: Any, axes: Any) -> Iterator[FigureText]:
    yield FigureText("the legend", "legend", legend.get_window_extent(), 0.0, axes=axes)
    for text in (*legend.get_texts(), legend.get_title()):
        yield from _iterate_text(text, "in legend", axes)


# --- problems with positions ----------------------------------------------------------------------------------------


def find_clipped(texts: FigureTexts, canvas: Any) -> list[str]:
    """Find labels with at least a tenth of their height or width outside the canvas."""
    beyond: list[str] = []
    for item in texts.items:
        room = canvas.padded(4.0 if item.kind == "legend" else 0.1 * min(item.box.size))
        if room.count_contains(item.box.get_points()) < 2 and (item.kind != "note" or canvas.overlaps(item.box)):
            beyond.append(item.text)
    return beyond[:_MAX_FINDINGS]


def find_overlaps(texts: FigureTexts, panels: list[Any]) -> list[dict[str, Any]]:
    """Find pairs of overlapping labels, and labels that lie on another panel; the worst come first."""
    hits = [*_find_overlapping_pairs(texts.items), *_find_texts_on_panels(texts.items, panels)]
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


def compute_covered_share(axes: Any) -> float:
    """Return the share of drawn data (lines, points of scatters, ends of bars) that lies under a legend."""
    legends = [
        legend
        for legend in (axes.get_legend(), *axes.get_figure(root=True).legends)
        if legend is not None and legend.get_visible()
    ]
    if not legends:
        return 0.0
    drawn = [line.get_path().interpolated(20).vertices for line in axes.lines[:50] if is_in_data(line, axes)]
    drawn += [artist.get_offsets()[:5000] for artist in axes.collections[:50] if "Path" in type(artist).__name__]
    points = np.concatenate(
        [
            axes.transData.transform(np.concatenate([np.zeros((0, 2)), *drawn])),
            *(patch.get_window_extent().get_points()[1:] for patch in axes.patches[:200]),
        ]
    )
    window = axes.get_window_extent()
    under = (window.intersection(window, legend.get_window_extent()) for legend in legends)
    seen = window.count_contains(points)
    hidden = max((float(box.count_contains(points)) for box in under if box is not None), default=0.0)
    return hidden / seen if seen else 0.0
