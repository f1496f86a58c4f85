"""The style of this paper's figures, and functions that follow it. Importing the module sets the style.

    from figure_style import look, panels, save

    figure, axes = panels(2)                       # two panels side by side; `axes` is a list
    for k, (arm, values) in enumerate(series.items()):
        axes[0].plot(x, values, label=arm, **look(k))
    save(figure, "accuracy-by-size")               # figures/accuracy-by-size.pdf and .png

Sizes are in inches and points on the printed page, since figures are printed at the width at which they are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

TEXT_WIDTH = 5.5
COLUMN_WIDTH = 5.5
MAX_PANELS = 3

plt.style.use(Path(__file__).with_name("paper.mplstyle"))

_CYCLE = list(plt.rcParams["axes.prop_cycle"])
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")


def width_of(count: int) -> float:
    """Width in inches of a figure with `count` panels side by side: one column, or 64% of the text, for one panel; else
    the text."""
    if count == 1:
        return COLUMN_WIDTH if COLUMN_WIDTH < TEXT_WIDTH else 0.64 * TEXT_WIDTH
    return TEXT_WIDTH


def look(k: int) -> dict[str, Any]:
    """Color, marker and line style of the k-th series, for `plot` and `errorbar`; use the same k in every figure."""
    return dict(_CYCLE[k % len(_CYCLE)])


def colour(k: int) -> str:
    """Color of the k-th series, for `fill_between` and `scatter`."""
    return str(look(k)["color"])


def bar(k: int) -> dict[str, Any]:
    """Color and hatching of the k-th group of bars."""
    return {
        "color": colour(k),
        "hatch": _HATCHES[k % len(_HATCHES)],
        "edgecolor": "white",
        "error_kw": {"linewidth": 0.8, "capsize": 1.8},
    }


def panels(
    count: int = 1, height: float = 2.0, *, rows: int = 1, width: float | None = None, **options: Any
) -> tuple[Any, list[Any]]:
    """A figure with one row (or `rows`) of up to three panels, and its axes; sizes in inches, options as in
    `subplots`."""
    if not 1 <= count <= MAX_PANELS:
        raise ValueError(f"{count} panels side by side: at most {MAX_PANELS} are readable in print")
    figure: Any
    figure, axes = plt.subplots(rows, count, figsize=(width or width_of(count), height), squeeze=False, **options)
    figure.set_layout_engine("constrained", wspace=0.06, w_pad=0.03, h_pad=0.03)
    return figure, list(axes.flat)


def label_left(axes: Sequence[Any], label: str) -> None:
    """Set one y label, shown at the left, for panels of the same quantity; each panel keeps its own scale."""
    for panel in axes:
        panel.set_ylabel(label)
        panel.yaxis.label.set_visible(panel.get_subplotspec().is_first_col())


def half_widths(entries: Sequence[Mapping[str, Any]]) -> Any:
    """Distances of interval ends below and above the means, shape (2, entries); 0 without an interval."""
    return np.array(
        [(0.0, 0.0) if one["low"] is None else (one["mean"] - one["low"], one["high"] - one["mean"]) for one in entries]
    ).T


def legend(figure: Any, handles: Mapping[str, Any] | None = None) -> None:
    """Add one legend below all panels, where it covers no data, in as many rows as needed; none for a single label.

    `handles` maps labels to artists; without it, those of all panels are used, each label once.
    """
    found: dict[str, Any] = dict(handles or {})
    shown: list[Any] = [] if handles else list(figure.axes)
    for panel in shown:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    for rows in range(1, len(found) + 1) if len(found) > 1 else ():
        made = figure.legend(
            list(found.values()), list(found), loc="outside lower center", ncols=-(-len(found) // rows)
        )
        figure.draw_without_rendering()
        if made.get_window_extent().width <= figure.bbox.width or rows == len(found):
            return
        made.remove()


def save(figure: Any, name: str) -> None:
    """Write figures/<name>.pdf and .png at 300 dpi and close the figure; add a legend below if no panel has one."""
    if not figure.legends and not any(axis.get_legend() for axis in figure.axes):
        legend(figure)
    Path("figures").mkdir(exist_ok=True)
    figure.savefig(f"figures/{name}.pdf", metadata={"Creator": None, "Producer": None, "CreationDate": None})
    figure.savefig(f"figures/{name}.png", dpi=300)
    plt.close(figure)
