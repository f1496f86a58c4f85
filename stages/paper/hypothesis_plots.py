"""Plot of the outcomes of the hypotheses. The program runs this script in a kernel, like a model's plots, on
`inputs/decided.json` (`stages.paper.hypothesis_figures`)."""

# `figure_style` is next to the script in the kernel.
from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from figure_style import half_widths, label_left, look, panels, save

FIGURE_DATA: dict[str, Any] = json.loads(Path("inputs/decided.json").read_text())


LETTER_INCHES, LEFT_INCHES = 0.068, 0.45
"""Usual width of a letter of a title, and of what is left of the axes of a panel."""
MAX_TICK_CHARS = 12
"""Characters per line of the name of a level."""


def wrap_over(axis: Any, text: str) -> str:
    """Wrap a title or label to the width of its axes."""
    width = axis.figure.get_figwidth() / axis.get_subplotspec().get_gridspec().ncols
    return fill(text, int((width - LEFT_INCHES) / LETTER_INCHES))


def name_ticks(axis: Any, names: list[str]) -> None:
    """Label equally spaced levels by name, at an angle where the names would touch."""
    wrapped = [fill(name, MAX_TICK_CHARS) for name in names]
    room = axis.figure.get_figwidth() / len(axis.figure.axes) / max(len(names), 1)
    longest = max((len(line) for name in wrapped for line in name.split("\n")), default=0)
    angled = longest * 0.06 > room - 0.1  # inches per letter at 7 points
    axis.set_xticks(
        range(len(names)),
        names if angled else wrapped,
        **({"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if angled else {}),
    )
    if any(names):
        axis.set_xlabel(wrap_over(axis, FIGURE_DATA["factor"]))
    else:
        axis.set_xticks([])
    axis.set_xlim(-0.5, len(names) - 0.5)


def differences(name: str) -> None:
    """Plot the paired differences of every arm from the baseline, by level: seeds, and means with intervals."""
    found = FIGURE_DATA["differences"]
    rows = -(-len(found) // 3)
    figure, axes = panels(min(3, len(found)), height=2.1 * rows, rows=rows)
    for axis in axes[len(found) :]:
        axis.remove()
    axes = axes[: len(found)]
    for axis, panel in zip(axes, found, strict=True):
        axis.axhline(0, color="0.4", linewidth=0.8)
        for k, margin in enumerate(panel["margins"]):
            axis.axhline(margin, color="0.2", linewidth=0.8, linestyle="--", label="" if k else "registered margin")
        width = 0.7 / len(panel["series"])
        for k, series in enumerate(panel["series"]):
            drawn = {**look(series["order"]), "linestyle": "none"}
            points = [(at, point) for at, point in enumerate(series["points"]) if point is not None]
            shift = (k - (len(panel["series"]) - 1) / 2) * width
            seeds = [(at + shift - 0.22 * width, value) for at, point in points for value in point["values"]]
            if seeds:
                axis.plot(*zip(*seeds, strict=True), **{**drawn, "markersize": 1.8, "alpha": 0.5, "markeredgewidth": 0})
            axis.errorbar(
                [at + shift + 0.12 * width for at, _ in points],
                [point["mean"] for _, point in points],
                yerr=half_widths([point for _, point in points]),
                label=series["label"],
                **drawn,
            )
        name_ticks(axis, panel["ticks"])
        if len(found) > 1:
            axis.set_title(wrap_over(axis, panel["dataset"]))
    label_left(axes, FIGURE_DATA["side"])
    save(figure, name)
