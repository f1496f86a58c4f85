"""Where the texts of a live matplotlib figure stand: which are cut off, lie on each other or on another panel.

Boxes are upright rectangles in pixels of the figure's own dpi; texts that are turned by an odd angle are not compared
with each other. Not more than `MOST` texts, and not longer than until `until`; the caller is told if that was too few.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab._series import numbers

MOST = 400
_TEXT = 80
_KEPT = 20
"""Findings of a sort that are written down."""
_LEAST = 0.02
"""Share of the smaller box that must be covered for two texts to lie on each other."""
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Item:
    """A text or legend; `legend` items are compared as a whole."""

    text: str
    what: str
    box: Box
    points: float
    turned: bool = False
    axes: Any = None


@dataclass(frozen=True)
class Texts:
    """All that can be seen, and whether something was left out."""

    items: list[Item]
    inside: list[Item]
    """Texts within legends, for their size."""
    cut: bool


def texts_of(figure: Any, until: float) -> Texts:
    """Every visible text of the figure that has been drawn."""
    items: list[Item] = []
    inside: list[Item] = []
    for item in chain(*(_legend(legend, None) for legend in figure.legends),
                      *(_text(artist, "note") for artist in figure.texts),  # its title and labels for all panels too
                      *(_of_axes(axes) for axes in figure.axes if axes.get_visible())):
        if len(items) + len(inside) >= MOST or time.monotonic() > until:
            return Texts(items, inside, True)
        (inside if item.what == "in legend" else items).append(item)
    return Texts(items, inside, False)


def _of_axes(axes: Any) -> Iterator[Item]:
    for name in ("title", "_left_title", "_right_title"):
        yield from _text(getattr(axes, name, None), "title", axes)
    if axes.axison:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_visible():
                yield from _text(axis.label, "label", axes)
                yield from _text(axis.get_offset_text(), "offset", axes)
                for text in tick_labels(axis):
                    yield from _text(text, "tick", axes)
    for artist in axes.texts:
        if not artist.get_clip_on() or artist.get_clip_path() is None:
            yield from _text(artist, "note", axes)
    if axes.get_legend() is not None and axes.get_legend().get_visible():
        yield from _legend(axes.get_legend(), axes)


def tick_labels(axis: Any) -> Iterator[Any]:
    """The tick labels that are drawn: visible, not empty, within the limits."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low - slack <= tick.get_loc() <= high + slack:
            for label in (tick.label1, tick.label2):
                if label.get_visible() and label.get_text().strip():
                    yield label


def _text(artist: Any, what: str, axes: Any = None) -> Iterator[Item]:
    if artist is None or not artist.get_visible() or not artist.get_text().strip():
        return
    box = artist.get_window_extent()
    if box.width > 0 and box.height > 0:
        yield Item(artist.get_text().strip()[:_TEXT], what, (box.x0, box.y0, box.x1, box.y1),
                   float(artist.get_fontsize()), artist.get_rotation() % 90 != 0, axes)


def _legend(legend: Any, axes: Any) -> Iterator[Item]:
    box = legend.get_window_extent()
    yield Item("the legend", "legend", (box.x0, box.y0, box.x1, box.y1), 0.0, axes=axes)
    for text in (*legend.get_texts(), legend.get_title()):
        yield from _text(text, "in legend", axes)


# --- what is wrong with where they stand ----------------------------------------------------------------------------


def clipped(texts: Texts, canvas: Box) -> list[str]:
    """Texts of which a tenth or more of the height or width lies beyond the canvas."""
    beyond: list[str] = []
    for item in texts.items:
        x0, y0, x1, y1 = item.box
        slack = 0.1 * min(x1 - x0, y1 - y0) if item.what != "legend" else 4.0
        if (x0 < canvas[0] - slack or y0 < canvas[1] - slack or x1 > canvas[2] + slack or y1 > canvas[3] + slack) and (
                item.what != "note" or (x1 > canvas[0] and y1 > canvas[1] and x0 < canvas[2] and y0 < canvas[3])):
            beyond.append(item.text)
    return beyond[:_KEPT]


def overlaps(texts: Texts, panels: list[Any]) -> list[dict[str, Any]]:
    """Pairs of texts that lie on each other, and texts that lie on a panel which is not theirs; the worst first."""
    hits = [*_pairs(texts.items), *_on_panels(texts.items, panels)]
    return sorted(hits, key=lambda hit: -float(hit["share"]))[:_KEPT]


def _pairs(items: list[Item]) -> Iterator[dict[str, Any]]:
    if len(items) < 2:
        return
    boxes = np.array([_tightened(item.box) for item in items])
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=-1)
    # How much of the smaller of two boxes lies in the other, shape (boxes, boxes).
    shares = np.clip(high - low, 0, None).prod(axis=-1) / np.maximum(np.minimum(area[:, None], area[None, :]), 1e-9)
    for i, j in np.argwhere(np.triu(shares, 1) > _LEAST).tolist():
        a, b = items[i], items[j]
        same_place = a.text == b.text and shares[i, j] > 0.95
        if not ((a.turned and b.turned) or same_place):
            yield {"a": a.text, "b": b.text, "share": round(float(shares[i, j]), 3)}


def _tightened(box: Box) -> Box:
    """Without the room above and below the letters."""
    x0, y0, x1, y1 = box
    spare = 0.15 * min(x1 - x0, y1 - y0)
    return (x0, y0 + spare, x1, y1 - spare) if x1 - x0 > y1 - y0 else (x0 + spare, y0, x1 - spare, y1)



def _on_panels(items: list[Item], panels: list[Any]) -> Iterator[dict[str, Any]]:
    boxes = {id(axes): axes.get_window_extent().extents for axes in panels if axes.get_visible() and axes.axison}
    for item in items:
        own = boxes.get(id(item.axes))
        if own is None or item.what not in ("label", "title", "tick"):
            continue
        text = _tightened(item.box)
        area = (text[2] - text[0]) * (text[3] - text[1])
        for box in boxes.values():
            width, height = _common(own, box)
            if area <= 0 or (width > 1 and height > 1):  # the panel itself, a twin, or panels that lie in each other
                continue
            width, height = _common(text, box)
            share = max(0.0, width) * max(0.0, height) / area
            if share > 0.3:
                yield {"a": item.text, "b": "another panel", "share": round(share, 3)}


def _common(a: Any, b: Any) -> tuple[float, float]:
    """Width and height of what two boxes share; negative where they lie apart."""
    return float(min(a[2], b[2]) - max(a[0], b[0])), float(min(a[3], b[3]) - max(a[1], b[1]))


def covered(axes: Any) -> float:
    """The share of what was drawn from data that lies under a legend, lines taken as traces."""
    boxes = [legend.get_window_extent() for legend in (axes.get_legend(), *axes.get_figure(root=True).legends)
             if legend is not None and legend.get_visible()]
    if not boxes:
        return 0.0
    points = np.concatenate([np.zeros((0, 2)), *_traces(axes)])
    seen = points[_within(points, axes.get_window_extent())]
    return max(float(_within(seen, box).mean()) for box in boxes) if len(seen) else 0.0


def _traces(axes: Any) -> Iterator[NDArray[np.float64]]:
    """Pixels along lines, at points of scatters and on the tops of bars; a few hundred each."""
    for line in axes.lines[:50]:
        if all(line.get_transform().contains_branch_seperately(axes.transData)):
            yield _along(_pixels(axes, line.get_xydata()))
    for artist in axes.collections[:50]:
        if "Path" in type(artist).__name__:
            yield _pixels(axes, artist.get_offsets())[:5000]
    for patch in axes.patches[:200]:
        box = patch.get_window_extent()
        yield _along(np.array([(box.x0, box.y1), (box.x1, box.y1)]))


def _pixels(axes: Any, points: Any) -> NDArray[np.float64]:
    spots = numbers(points)
    return numbers(axes.transData.transform(spots[np.isfinite(spots).all(axis=1)]))


def _along(spots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places along a trace, so that long strokes between few points count by their length."""
    if len(spots) < 2:
        return spots
    steps = np.linspace(0, len(spots) - 1, 400)
    return np.stack([np.interp(steps, np.arange(len(spots)), spots[:, k]) for k in (0, 1)], axis=1)


def _within(points: NDArray[np.float64], box: Any) -> NDArray[np.bool_]:
    return ((points[:, 0] > box.x0) & (points[:, 0] < box.x1) & (points[:, 1] > box.y0) & (points[:, 1] < box.y1))
